/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { readBody, readBytes, readPath, withClientSignal } from "./read_request.ts";
export { type AskedServer, type ServerProfile, serverProfile } from "./upstream.ts";
export type { GatewaySessionDetails, GatewaySessionSummary } from "./sessions/sessions.ts";
export type { Compaction } from "./sessions/session.ts";
