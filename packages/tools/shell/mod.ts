/**
 * Tools that run commands, in the foreground and in the background.
 *
 * @example
 * ```ts
 * import { tmpdir } from "node:os";
 * import { assertEquals } from "@std/assert";
 * import { shellTool } from "@tare/tools/shell";
 *
 * const context = { signal: new AbortController().signal, progress() {} };
 * const result = await shellTool({ workspace: tmpdir() }).run({ command: "echo hi" }, context);
 * assertEquals(result, "exit code 0; 3 bytes of output\nhi\n");
 * ```
 *
 * @module
 */
export { BackgroundCommands, backgroundTool } from "./background.ts";
export { shellTool, type ShellToolOptions } from "./shell_tool.ts";
