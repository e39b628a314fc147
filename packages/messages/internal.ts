/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { checkGiven, type Needed, type NeededOptions } from "./check_given.ts";
export { CallPairing, tellBy } from "./message.ts";
