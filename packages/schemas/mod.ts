/**
 * Shows a model the full schema of each tool once, and afterwards only what a call needs.
 *
 * The definitions of tools are sent with every request, and most of their tokens are prose that the model has read
 * in the first one. {@linkcode shownTools} decides for each request which form of which tool to send. Arguments are
 * validated against the full schema all along (`@tare/loop/arguments`): a call that breaks a rule which the
 * compact form leaves out is answered with the full definition.
 *
 * Where there are many tools, their definitions need not stand in requests at all: a {@linkcode Catalogue} tells their
 * names and one line each, and {@linkcode standIns} are two tools by which a model sees the rest at the prompt's end,
 * and calls it.
 *
 * @example
 * ```ts ignore
 * import { shownTools } from "@tare/schemas";
 * import OpenAI from "openai";
 *
 * let exposed: ReadonlySet<number> = new Set(); // tools shown so far
 * for (const question of questions) {
 *   const shown = shownTools(tools, { exposed });
 *   await new OpenAI().chat.completions.create({
 *     model: "gpt-5.5",
 *     messages: [{ role: "user", content: question }],
 *     tools: shown.tools.map(({ function: tool }) => ({ type: "function", function: { ...tool } })),
 *   });
 *   exposed = shown.exposed;
 * }
 * ```
 *
 * @module
 */
export { Catalogue, standIns, type StandInsOptions, type ToolPair } from "./stand_ins.ts";
export { compactTool, shownTools, type ShownToolsOptions, type ToolsView } from "./shown_tools.ts";
