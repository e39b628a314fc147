import type { Stance } from "@tare/messages";

/** What a placeholder says. */
export interface Placeholder {
  /** Name of the tool whose result it stands for. */
  readonly tool: string;
  /** UTF-8 bytes of the original. */
  readonly bytes: number;
  /** Archive reference of the original. */
  readonly ref: string;
  /** True if it stands for the middle of a result, between its head and its tail; false if for all of it. */
  readonly middle: boolean;
}

/** How the model gets the original back. */
export interface PlaceholderOptions {
  /** Whether the recall tool is offered to the model. Default false. */
  readonly recall?: boolean;
  /** The tool's stance: without recall, a `rederivable` result can be had by running the tool again. Default `once`. */
  readonly stance?: Stance;
}

const LINE = /^\[elided: (middle of )?([\w.:/-]{1,64}) result, (\d+) bytes; [\w ,;]*ref ([0-9a-f]{16})\]$/;

/**
 * The line that stands for an elided text: which tool's, how long, under which reference, and how to get it back.
 * It depends on nothing else, so that the same elision always gives the same bytes; about 35 tokens.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { formatPlaceholder } from "@tare/prune";
 *
 * assertEquals(
 *   formatPlaceholder({ tool: "grep", bytes: 48213, ref: "2cf24dba5fb0a30e", middle: false }, { recall: true }),
 *   "[elided: grep result, 48213 bytes; recall with ref 2cf24dba5fb0a30e]",
 * );
 * ```
 */
export function formatPlaceholder(placeholder: Placeholder, options: PlaceholderOptions = {}): string {
  const { bytes, ref, middle } = placeholder;
  // A model may call a tool by any text, a line break included.
  const tool = placeholder.tool.replaceAll(/[^\w.:/-]+/g, "_").slice(0, 64) || "tool";
  const way = options.recall
    ? "recall with ref"
    : options.stance === "rederivable"
    ? "run again if needed; ref"
    : "ref";
  return `[elided: ${middle ? "middle of " : ""}${tool} result, ${bytes} bytes; ${way} ${ref}]`;
}

/**
 * Reads a line back that {@linkcode formatPlaceholder} wrote; `undefined` for any other text. Such a line in a
 * tool's own output looks the same: only the archive can tell.
 */
export function parsePlaceholder(line: string): Placeholder | undefined {
  const [, middle, tool, bytes, ref] = LINE.exec(line) ?? [];
  if (tool === undefined || ref === undefined) return undefined;
  return { tool, bytes: Number(bytes), ref, middle: middle !== undefined };
}
