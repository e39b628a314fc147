import { checkGiven, type Content, contentText, type ToolMessage } from "@tare/messages";
import { isRecord } from "./json.ts";

/** So many UTF-16 code units at either end of a result may say how its program ended. */
const REACH_CHARS = 512;

/** Longer results aren't read as JSON, in UTF-16 code units. */
const MAX_JSON_CHARS = 1_000_000;

/** A line on top, or among those that stand before the output. */
const ON_TOP = /^(?:exit code:? (-?\d+)$|(?:.+\n){0,4}process exited with code (-?\d+)$)/im;

/** The last line. */
const AT_THE_END = /\ncommand exited with code (-?\d+)\s*$/i;

/**
 * Whether a result says that its call failed: by a flag of the protocol, else by the exit code that clients state beside
 * what a program has written, in a line of its own or in a field of JSON. Nothing if it doesn't say.
 *
 * @param flag What the protocol says. Default: it doesn't.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { statedFailure } from "@tare/wire";
 *
 * assertEquals(statedFailure("Exit code: 2\nOutput:\nNo such file."), { failed: true });
 * assertEquals(statedFailure('{"output":"Error: 0","metadata":{"exit_code":0}}'), { failed: false });
 * assertEquals(statedFailure("Exit code: 2", false), { failed: false });
 * assertEquals(statedFailure("Error: 0"), {});
 * ```
 */
export function statedFailure(content: Content, flag?: boolean): Pick<ToolMessage, "failed"> {
  checkGiven("statedFailure()", { content }, {
    content: typeof content === "string" ? "string" : "array",
  });
  if (flag !== undefined) return { failed: flag };
  const text = contentText(content);
  const code = codeInLines(text) ?? codeInJson(text);
  return code === undefined ? {} : { failed: code !== 0 };
}

function codeInLines(text: string): number | undefined {
  const top = ON_TOP.exec(text.slice(0, REACH_CHARS));
  const code = (top?.index === 0 ? top[1] ?? top[2] : undefined) ??
    AT_THE_END.exec(text.slice(-REACH_CHARS))?.[1];
  return code === undefined ? undefined : Number(code);
}

function codeInJson(text: string): number | undefined {
  if (!text.startsWith("{") || text.length > MAX_JSON_CHARS || !/"exit_?code"/i.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    const { metadata, ...fields } = isRecord(value) ? value : {};
    const said = { ...fields, ...(isRecord(metadata) && metadata) };
    const code = said.exit_code ?? said.exitCode;
    return typeof code === "number" ? code : undefined;
  } catch {
    // It only looks like JSON.
    return undefined;
  }
}
