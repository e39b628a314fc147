/**
 * Formats numbers, texts and changes for displays of a session. A separate entry point, so that a page bundles
 * nothing else of the server.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { counted, oneLine } from "@tare/server/internal/format";
 * assertEquals(counted(1_234, "call"), "1,234 calls");
 * assertEquals(oneLine("cat a.ts\ncat b.ts", 12), "cat a.ts ca…");
 * ```
 *
 * @module
 */
import type { ContentPart, FileChange } from "@tare/messages";
import { sliceText } from "@tare/messages/internal";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Returns a whole number with separators: `1,234`. */
export function formatCount(value: number): string {
  return WHOLE.format(value);
}

/** Returns a number with its noun: `1 call`, `2 calls`. */
export function counted(value: number, noun: string): string {
  const count = formatCount(value);
  return `${count} ${noun}${count === "1" ? "" : "s"}`;
}

/** Returns a text in one line of at most `chars` UTF-16 code units. */
export function oneLine(text: string, chars: number): string {
  const flat = text.replaceAll(/\s+/g, " ").trim();
  return flat.length <= chars ? flat : `${sliceText(flat, 0, chars - 1)}…`;
}

/** Returns a text as a block of code in Markdown, whatever fences it contains. */
export function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text.replace(/\n?$/, "\n")}${fence}`;
}

const PART_NAMES = {
  text: "text",
  refusal: "text",
  image_url: "image",
  input_audio: "recording",
  video_url: "video",
  file: "file",
} as const satisfies Record<ContentPart["type"], string>;

/** Returns the users' word for a part of a message. */
export function partName({ type }: Pick<ContentPart, "type">): string {
  return PART_NAMES[type];
}

/** A line of a change: added, removed, the position of those that follow, or neither. */
export interface ChangedLine {
  readonly kind: "added" | "removed" | "hunk" | undefined;
  readonly text: string;
}

const KINDS: Readonly<Record<string, ChangedLine["kind"]>> = { "+": "added", "-": "removed", "@": "hunk" };

/** Returns the lines of a change, and a note on omitted ones. */
export function changedLines(
  { diff, omitted = 0 }: FileChange,
): { readonly lines: readonly ChangedLine[]; readonly rest?: string } {
  const lines = diff === "" ? [] : diff.split("\n").map((text) => ({ kind: KINDS[text.charAt(0)], text }));
  return { lines, ...(omitted > 0 && { rest: `${counted(omitted, "more line")}, or cut lines` }) };
}
