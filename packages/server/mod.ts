/**
 * The agent server as a function from request to response: sessions, turns and their events over HTTP and
 * server-sent events. It has no port, key or file of its own; those who serve it hand in models, tools and a store.
 *
 * @example Serve an agent whose model always says the same
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 * import { agentHandler } from "@tare/server";
 * import { memoryStore } from "@tare/store";
 *
 * const agent = agentHandler({
 *   model: () =>
 *     async function* () {
 *       yield { type: "completed", message: { role: "assistant", content: "Hello." }, finishReason: "stop" };
 *     },
 *   defaultModel: "greeter",
 *   tools: [],
 *   store: memoryStore(),
 *   countTokens: () => Promise.resolve(estimateTokens),
 *   profile: profileNamed("none"),
 *   windowTokens: 128_000,
 *   mechanisms: { context: true, prune: true, schemas: true, truncate: true },
 * });
 * // Deno.serve(agent.fetch) would give it a port.
 * const session = await agent.fetch(new Request("http://localhost/v1/sessions", { method: "POST" }));
 * assertEquals(session.status, 201);
 * ```
 *
 * @module
 */
export * from "./agent_handler.ts";
export { allowedHosts, isLoopback, LOOPBACK_HOSTS } from "./http/host_rule.ts";
export { EventLog, type NumberedEvent } from "./sessions/event_log.ts";
export { AGENT_MODEL } from "./as_model/openai_request.ts";
export { guard, type GuardOptions } from "./http/guard.ts";
export * from "./http/http_error.ts";
export { openapiDocument } from "./http/openapi_document.ts";
export * from "./api/request_schemas.ts";
export type { Call, Route, RouteErrors, RouteParameter, RouteResponse } from "./http/route.ts";
export type { TurnOptions } from "./sessions/run_turn.ts";
export type { RunningTurn, SessionBody, SessionInfo, SessionTotals } from "./sessions/session.ts";
export type { SessionEvent } from "./sessions/session_event.ts";
export { DEFAULT_INSTRUCTIONS, POLICIES, type Policy, type SessionOptions } from "./sessions/sessions.ts";
export * from "./http/sse_response.ts";
export * from "./sessions/turn_slots.ts";
