/**
 * The agent server as a function from request to response: sessions, turns and their events over HTTP and
 * server-sent events. It has no port, key or file of its own; those who serve it hand in models, tools and a store.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { type AgentHandler, agentHandler } from "./agent_handler.ts";
export type { AgentOptions } from "./agent_options.ts";
export { AGENT_MODEL } from "./as_model/errors.ts";
export { allowedHosts, isLoopback } from "./http/guard.ts";
export { ALLOW_EVERYTHING, type ApprovalRule, faultOfRules } from "./approvals/rules.ts";
export type { NumberedEvent, SessionEvent, SessionOptions, Workplace } from "./sessions/session_types.ts";
export type { ToolSource } from "./turns/session_tools.ts";
export type { Heartbeat } from "./http/sse_response.ts";
