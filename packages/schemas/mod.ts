/**
 * Sends a model the full schema of each tool once, and afterwards only the parts that a call needs.
 *
 * Tool definitions are part of every request, and most of their tokens are prose. {@linkcode compactTools}
 * selects for each request the form of each tool. Arguments are always validated against the full schema
 * (`@tare/loop/arguments`): the answer to an invalid call contains the full definition.
 *
 * For many tools, a {@linkcode Catalogue} lists names with one line each, and {@linkcode standIns} are two
 * tools that find definitions at the end of the prompt and call them.
 *
 * @example
 * ```ts ignore
 * import { compactTools } from "@tare/schemas";
 * import OpenAI from "openai";
 *
 * let exposed: ReadonlySet<number> = new Set(); // tools sent in full so far
 * for (const question of questions) {
 *   const compact = compactTools(tools, { exposed });
 *   await new OpenAI().chat.completions.create({
 *     model: "gpt-5.5",
 *     messages: [{ role: "user", content: question }],
 *     tools: compact.tools.map(({ function: tool }) => ({ type: "function", function: { ...tool } })),
 *   });
 *   exposed = compact.exposed;
 * }
 * ```
 *
 * @module
 */
export { Catalogue, standIns, type StandInsOptions, type ToolPair } from "./stand_ins.ts";
export { compactTool, compactTools, type CompactToolsOptions, type ToolsView } from "./compact_tools.ts";
