/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { readBody, readBytes, readPath, withClientSignal } from "./http.ts";
export type { GatewaySessionDetails, GatewaySessionSummary } from "./sessions/sessions.ts";
export type { Compaction } from "./sessions/session.ts";
