/**
 * Puts Tare in front of somebody else's agent: passes its model calls on to a provider with only what of each prompt
 * still pays for its place, as a function from request to response.
 *
 * @example Pass on what a client asks
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { gateway } from "@tare/gateway";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 *
 * const { fetch } = gateway({
 *   baseURL: "https://api.openai.com/v1",
 *   profile: profileNamed("openai"),
 *   windowTokens: 272_000,
 *   countTokens: () => Promise.resolve(estimateTokens),
 *   // So that this example needs no provider:
 *   fetch: () => Promise.resolve(Response.json({ choices: [{ message: { content: "Hello." } }] })),
 * });
 * // Deno.serve((request) => fetch(request) ?? new Response(null, { status: 404 })) would give it a port.
 * const answer = await fetch(
 *   new Request("http://localhost/v1/chat/completions", {
 *     method: "POST",
 *     headers: { "content-type": "application/json", authorization: "Bearer key" },
 *     body: JSON.stringify({ model: "gpt-5", messages: [{ role: "user", content: "Hello?" }] }),
 *   }),
 * );
 * assertEquals((await answer?.json()).choices[0].message.content, "Hello.");
 * ```
 *
 * @module
 */
export { type Gateway, gateway } from "./gateway.ts";
export { type Group, type GroupTotals, LEDGER_REPORT, type LedgerReport } from "./ledger.ts";
export type { GatewayOptions } from "./options.ts";
