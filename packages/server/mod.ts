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
export { AGENT_MODEL } from "./as_model/unsupported.ts";
export { guard, type GuardOptions } from "./http/guard.ts";
export { allowedHosts, isLoopback, LOOPBACK_HOSTS } from "./http/host_rule.ts";
export type { Heartbeat } from "./http/sse_response.ts";
export type { Policy, SessionOptions } from "./sessions/session_options.ts";
export { DEFAULT_INSTRUCTIONS, type SessionsOptions } from "./sessions/sessions.ts";
