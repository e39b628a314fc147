/**
 * Shows a model the full schema of each tool once, and afterwards only what a call needs.
 *
 * The definitions of tools are sent with every request, and most of their tokens are prose that the model has read
 * in the first one. {@linkcode shownTools} decides for each request which form of which tool to send. Arguments are
 * validated against the full schema all along (`@tare/messages/arguments`): a call that breaks a rule which the
 * compact form leaves out is answered with the full definition.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { compactTool } from "./compact_tool.ts";
export { type ShownTools, shownTools, type ShownToolsOptions } from "./shown_tools.ts";
