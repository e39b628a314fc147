/**
 * A simulated OpenAI-compatible provider with a faithful prefix cache, and models to put behind it:
 * {@linkcode scripted} replies, the {@linkcode replay} of a recorded conversation, and the {@linkcode rehearsal}
 * model, which uses real tools by fixed rules.
 *
 * @example Ask twice, and see the second prompt served from the cache
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { scripted, simulator } from "@tare/simulator";
 *
 * const provider = simulator({
 *   model: scripted([{ content: "Hello." }, { content: "Hello again." }]),
 *   profile: profileNamed("deepseek"),
 *   tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) }, // better: @tare/messages/tiktoken
 * });
 *
 * async function ask(content: string) {
 *   const body = JSON.stringify({ model: "any", messages: [{ role: "user", content }] });
 *   // Or let Deno.serve(provider.fetch) listen, and call it with any client.
 *   const request = new Request("http://provider/v1/chat/completions", { method: "POST", body });
 *   return (await (await provider.fetch(request)).json()).usage.prompt_cache_hit_tokens;
 * }
 *
 * const long = "word ".repeat(200);
 * assertEquals([await ask(long), await ask(`${long}more`)], [0, 192]);
 * ```
 *
 * @module
 */
export type { Fault, ToolCallPieces } from "./fault.ts";
export * from "./model.ts";
export type { Encoder } from "./provider/prompt_units.ts";
export * from "./rehearsal/rehearsal.ts";
export * from "./replay.ts";
export * from "./scripted.ts";
export * from "./provider/simulator.ts";
