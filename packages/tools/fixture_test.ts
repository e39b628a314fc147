import { dirname, join } from "@std/path";
import type { Tool, ToolContext } from "@tare/messages";
import { argumentsParser } from "@tare/loop/arguments";

/** Temporary workspace in a folder that no file tool may reach. */
export interface Workspace extends AsyncDisposable {
  readonly root: string;
  readonly outside: string;
  at(path: string): string;
}

/** Creates a workspace with these files; a path that ends in a slash is an empty folder. */
export async function makeWorkspace(
  files: Readonly<Record<string, string | Uint8Array>> = {},
): Promise<Workspace> {
  const parent = await Deno.realPath(await Deno.makeTempDir({ prefix: "tare-tools-" }));
  const [root, outside] = [join(parent, "workspace"), join(parent, "outside")];
  await Deno.mkdir(root);
  await Deno.mkdir(outside);
  for (const [path, content] of Object.entries(files)) {
    const folder = path.endsWith("/");
    await Deno.mkdir(folder ? join(root, path) : dirname(join(root, path)), { recursive: true });
    if (!folder) {
      await Deno.writeFile(
        join(root, path),
        typeof content === "string" ? new TextEncoder().encode(content) : content,
      );
    }
  }
  return {
    root,
    outside,
    at: (path) => join(root, path),
    [Symbol.asyncDispose]: () => Deno.remove(parent, { recursive: true }),
  };
}

export const context: ToolContext = { signal: new AbortController().signal, progress() {} };

/** Returns a context that is aborted by the tool's first progress report. */
export function abortOnProgress(): ToolContext {
  const controller = new AbortController();
  return { signal: controller.signal, progress: () => controller.abort() };
}

export async function call(
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  given: ToolContext = context,
): Promise<{ readonly content: string; readonly error: boolean }> {
  const parsed = argumentsParser(tool.definition)(JSON.stringify(args));
  if (!parsed.ok) throw new TypeError(parsed.problem);
  const output = await tool.run(parsed.value, given);
  return typeof output === "string" ? { content: output, error: false } : output;
}

/**
 * Calls a tool that runs commands with increasing time limits until the command has written output before the
 * limit. Returns the result, which must be an error, and the limit.
 */
export async function cutOff(
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
): Promise<{ readonly content: string; readonly timeoutMs: number }> {
  for (let timeoutMs = 300;; timeoutMs *= 2) {
    const content = await callError(tool, { ...args, timeout_ms: timeoutMs });
    if (!content.includes("; no output")) return { content, timeoutMs };
  }
}

export async function callOk(
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  given?: ToolContext,
): Promise<string> {
  const { content, error } = await call(tool, args, given);
  if (error) throw new Error(`Unexpected error result: ${content}`);
  return content;
}

export async function callError(
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
  given?: ToolContext,
): Promise<string> {
  const { content, error } = await call(tool, args, given);
  if (!error) throw new Error(`Not an error result: ${content}`);
  return content;
}
