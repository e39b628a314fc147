/**
 * Shows a model the full schema of each tool once, and afterwards only what a call needs.
 *
 * The definitions of tools are sent with every request, and most of their tokens are prose that the model has read
 * in the first one. {@linkcode shownTools} decides for each request which form of which tool to send. Arguments are
 * validated against the full schema all along (`@tare/messages/arguments`): a call that breaks a rule which the
 * compact form leaves out is answered with the full definition.
 *
 * @example In a loop of your own
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { estimateTokens, type ToolDefinition } from "@tare/messages";
 * import { argumentsParser } from "@tare/messages/arguments";
 * import { shownTools } from "@tare/schemas";
 *
 * const search: ToolDefinition = {
 *   type: "function",
 *   function: {
 *     name: "search",
 *     description: "Searches the archive. Use it before you answer from memory.",
 *     parameters: {
 *       type: "object",
 *       properties: {
 *         query: { type: "string", minLength: 3, description: "Words that must all occur." },
 *       },
 *       required: ["query"],
 *     },
 *   },
 * };
 *
 * let exposed: ReadonlySet<string> = new Set();
 * for (const step of [1, 2]) {
 *   const shown = shownTools([search], { exposed, countTokens: estimateTokens, minTokens: 0 });
 *   exposed = shown.exposed;
 *   // Send shown.tools with the request of this step.
 *   const text = JSON.stringify(shown.tools);
 *   assertEquals(text.includes("Words that must all occur."), step === 1);
 *   assertStringIncludes(text, '"query":{"type":"string"');
 * }
 *
 * // A call that only the full schema forbids is answered with it.
 * const parsed = argumentsParser(search)('{"query":"ab"}');
 * if (!parsed.ok) assertStringIncludes(parsed.problem, "Words that must all occur.");
 * assertEquals(parsed.ok, false);
 * ```
 *
 * @module
 */
export { compactTool } from "./compact_tool.ts";
export { type ShownTools, shownTools, type ShownToolsOptions } from "./shown_tools.ts";
