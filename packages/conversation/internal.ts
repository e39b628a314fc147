/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { expiryClock } from "./expiry_clock.ts";
export { pingUsdOfToday } from "./ping_cost.ts";
