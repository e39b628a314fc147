/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { pinOf } from "./event.ts";
export { SentRequests } from "./sent_requests.ts";
export { systemClock } from "./watchdog.ts";
