/**
 * The tools that run commands, in the foreground and in the background.
 *
 * @module
 */
export { BackgroundCommands, backgroundTool } from "./background.ts";
export { shellTool, type ShellToolOptions } from "./shell_tool.ts";
