import type { Message, Tool } from "@tare/messages";
import { archiveMessages, type ArchiveMessagesOptions, bytesFromText } from "./archive.ts";

/** Form of placeholders, for users and models. */
export const ANY_PLACEHOLDER = "[elided: …]";

const START = "[elided: ";
/** Maximum length of a tool's name. */
const MAX_NAME = 64;
const WHAT =
  "(?:(middle of )?([\\p{L}\\p{M}\\p{N}_.:/-]{1,64}) result, (\\d+) bytes|(\\d+) messages(?:, (\\d+) bytes)?|middle of this message, (\\d+) bytes)";
const LINE = new RegExp(`^\\[elided: ${WHAT}; [\\w ,;]*ref ([0-9a-f]{16})\\]$`, "u");

/** Content of a placeholder line. */
export type Placeholder =
  /** Replaces a tool result, or the middle of one between its head and its tail. */
  | {
    readonly of: "result" | "middle";
    /** Name of the result's tool. */
    readonly tool: string;
    /** UTF-8 bytes of the original. */
    readonly bytes: number;
    /** Archive reference of the original. */
    readonly ref: string;
  }
  /** Replaces several messages. */
  | {
    readonly of: "messages";
    /** Number of messages. */
    readonly messages: number;
    /** UTF-8 bytes of the original. Default: not stated. */
    readonly bytes?: number;
    /** Archive reference of the messages. */
    readonly ref: string;
  }
  /** Replaces the middle of a message's text. */
  | {
    readonly of: "text";
    /** UTF-8 bytes of the whole text. */
    readonly bytes: number;
    /** Archive reference of the whole text. */
    readonly ref: string;
  };

/** Options of {@linkcode formatPlaceholder}. */
export interface PlaceholderOptions {
  /** Whether the model has the recall tool. Default: false. */
  readonly recall?: boolean | undefined;
  /** Stance of the tool: without recall, a `rederivable` tool can be run again. Default: `once`. */
  readonly stance?: Tool["stance"] | undefined;
}

/**
 * Returns the line that replaces an original: its kind, length and reference, and how to get it back, in
 * about 35 tokens. Deterministic. A tool's name is cut to 64 letters, digits and `_.:/-`, other characters
 * become `_`.
 *
 * @throws {RangeError} if the reference is not 16 hexadecimal digits in lower case, or a number is no safe
 * integer of 0 or
 * more.
 */
export function formatPlaceholder(placeholder: Placeholder, options: PlaceholderOptions = {}): string {
  const { bytes, ref } = placeholder;
  if (!/^[0-9a-f]{16}$/.test(ref)) {
    throw new RangeError(`ref is ${JSON.stringify(ref)}; it must be 16 hexadecimal digits in lower case`);
  }
  const counts = { bytes, ...(placeholder.of === "messages" && { messages: placeholder.messages }) };
  for (const [name, count] of Object.entries(counts)) {
    if (count === undefined || Number.isSafeInteger(count) && count >= 0) continue;
    throw new RangeError(`${name} is ${count}; it must be an integer of 0 or more`);
  }
  const way = options.recall
    ? "recall with ref"
    : options.stance === "rederivable"
    ? "run again if needed; ref"
    : "ref";
  return `${START}${subjectOf(placeholder)}${bytes === undefined ? "" : `, ${bytes} bytes`}; ${way} ${ref}]`;
}

function subjectOf(placeholder: Placeholder): string {
  if (placeholder.of === "messages") return `${placeholder.messages} messages`;
  if (placeholder.of === "text") return "middle of this message";
  // A model may call a tool by any text, line breaks included.
  const plain = placeholder.tool.replaceAll(/[^\p{L}\p{M}\p{N}_.:/-]+/gu, "_");
  const tool = Array.from(plain.slice(0, 2 * MAX_NAME)).slice(0, MAX_NAME).join("") || "tool";
  return `${placeholder.of === "middle" ? "middle of " : ""}${tool} result`;
}

/** Archived messages and their placeholder line. */
export interface ArchivedStretch {
  readonly ref: string;
  readonly line: string;
}

/** Archives messages and returns their placeholder line. @throws {Error} if archiving fails. */
export async function archiveWithLine(
  messages: readonly Message[],
  { recall, ...options }: ArchiveMessagesOptions & Pick<PlaceholderOptions, "recall">,
): Promise<ArchivedStretch> {
  const { ref, text } = await archiveMessages(messages, options);
  const bytes = bytesFromText(text).length;
  return {
    ref,
    line: formatPlaceholder({ of: "messages", messages: messages.length, bytes, ref }, { recall }),
  };
}

/**
 * Parses a placeholder; `undefined` for other text. Only the archive distinguishes it from a tool's own
 * output.
 */
export function parsePlaceholder(line: string): Placeholder | undefined {
  if (!line.startsWith(START)) return undefined;
  const [, middle, tool, toolBytes, messages, bytes, textBytes, ref] = LINE.exec(line) ?? [];
  if (ref === undefined) return undefined;
  if (textBytes !== undefined) return { of: "text", bytes: Number(textBytes), ref };
  if (tool !== undefined) return { of: middle ? "middle" : "result", tool, bytes: Number(toolBytes), ref };
  return {
    of: "messages",
    messages: Number(messages),
    ...(bytes !== undefined && { bytes: Number(bytes) }),
    ref,
  };
}

/** Yields the lines that could replace the middle of a text, with the text before and after each. */
export function* splitTruncated(
  text: string,
): Generator<{ readonly ref: string; readonly bytes: number; readonly head: string; readonly tail: string }> {
  for (const { 0: line, index } of text.matchAll(/^\[elided: middle of .{1,200}\]$/gm)) {
    const placeholder = parsePlaceholder(line);
    if (placeholder?.of !== "middle") continue;
    const { ref, bytes } = placeholder;
    const head = text.slice(0, Math.max(0, index - 1));
    yield { ref, bytes, head, tail: text.slice(index + line.length + 1) };
  }
}

/** Returns the references of all placeholders in a text, in order. */
export function placeholderRefs(text: string): string[] {
  return Array.from(text.matchAll(/\bref ([0-9a-f]{16})\]/g), ([, ref]) => ref!);
}

/** Returns whether a text contains a placeholder with this reference. */
export function holdsPlaceholder(text: string, ref: string): boolean {
  return text.includes(`ref ${ref}]`);
}
