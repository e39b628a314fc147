/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { faultOfRules } from "./approvals/rules.ts";
export { AGENT_MODEL } from "./as_model/errors.ts";
export { allowedHosts, isLoopback } from "./http/guard.ts";
export type { NumberedEvent } from "./sessions/session_types.ts";
export type { EnvironmentDescription } from "./sessions/session_options.ts";
