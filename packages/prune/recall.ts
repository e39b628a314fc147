import type { RE2JS } from "re2js";
import {
  checkGiven,
  type CountTokens,
  estimateTokens,
  type Message,
  type ToolDefinition,
  transcribe,
} from "@tare/messages";
import { type Archive, isArchiveRef } from "./archive.ts";
import { fitHead } from "./fit_text.ts";
import { ANY_PLACEHOLDER } from "./placeholder.ts";

/** JSON Schema of what a model asks for, as exact as frameworks want it that take tools with their types. */
export type RecallParameters = {
  type: "object";
  properties: Record<
    "ref" | "lines" | "pattern" | "offset",
    { type: "string" | "integer"; description: string; minimum?: number }
  >;
  required: string[];
  additionalProperties: false;
};

/** The definition of the tool by which a model reads an archived original back; {@linkcode recallOriginal} answers it. */
export const RECALL_TOOL: ToolDefinition & {
  readonly function: {
    readonly description: string;
    readonly parameters: RecallParameters;
  };
} = {
  type: "function",
  function: {
    name: "recall",
    description: `Reads back what left this conversation: a line \`${ANY_PLACEHOLDER}\` says its ref. ` +
      "Of long texts ask for lines or a pattern; each piece says how to get the next.",
    parameters: {
      type: "object",
      properties: {
        ref: { type: "string", description: "16 hex digits" },
        lines: { type: "string", description: "`120-180`, `120-` or `120`, from 1" },
        pattern: {
          type: "string",
          description: "RE2; `(?i)` ignores case",
        },
        offset: { type: "integer", minimum: 0, description: "start at this character" },
      },
      required: ["ref"],
      additionalProperties: false,
    },
  },
};

/**
 * Answers a call of the recall tool: the archived original, a range of its lines, or its lines that match a
 * pattern, with their numbers. An answer that would be too long ends with a line that says how to go on.
 *
 * @throws {RangeError} if `limitTokens` is below 200, too short for a piece and the way to the next one.
 * @throws {Error} if the archive can't be read.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive, recallOriginal } from "@tare/prune";
 *
 * const archive = memoryArchive();
 * const ref = await archive.put("apple\nbanana\ncherry");
 * assertEquals(await recallOriginal(archive, { ref, pattern: "an+" }), { content: "2:banana", error: false });
 * ```
 */
export async function recallOriginal(
  archive: Archive,
  request: {
    /** Archive reference of the original. */
    readonly ref: string;
    /** Range of lines, counted from 1, both ends included: `120-180`, `120-` or `120`. Default: all. */
    readonly lines?: string;
    /** Only lines that match this regular expression, in RE2 syntax. Default: all. */
    readonly pattern?: string;
    /** Begin at this character (UTF-16 code unit) of the original. Default 0. */
    readonly offset?: number;
  },
  options: {
    /** Default {@linkcode estimateTokens}. */
    readonly countTokens?: CountTokens;
    /**
     * Longest answer, in tokens; at least 200. Default 7,000: below the bound on arrival (8,000), so that an answer
     * isn't cut a second time by those who count in the same way.
     */
    readonly limitTokens?: number;
  } = {},
): Promise<{
  /** Text of the tool result. */
  readonly content: string;
  /** True if the request could not be answered; `content` says what would be right. */
  readonly error: boolean;
}> {
  checkGiven("recallOriginal()", { archive, request }, {
    archive: { get: "function" },
    request: { ref: "string" },
  });
  const { countTokens = estimateTokens, limitTokens = 7_000 } = options;
  if (!(limitTokens >= 200)) {
    throw new RangeError(`Cannot recall within ${limitTokens} tokens: the limit must be at least 200`);
  }
  const ref = request.ref.trim().toLowerCase();
  const archived = isArchiveRef(ref) ? await archive.get(ref) : undefined;
  if (archived === undefined) {
    return refuse(
      `Cannot recall '${request.ref}': no original has this reference. Copy the 16 hex digits after 'ref' from ` +
        `an ${ANY_PLACEHOLDER} line of this conversation.`,
    );
  }
  const original = readable(archived);
  const { lines, pattern, offset = 0 } = request;
  const range = lines === undefined ? { start: 0, end: original.length } : findLines(original, lines);
  if (typeof range === "string") return refuse(range);
  if (offset > 0 && offset >= range.end) {
    return refuse(`Cannot recall from offset ${offset}: what was asked for ends at ${range.end}.`);
  }
  const region = { start: Math.max(range.start, offset), end: range.end, countTokens, limitTokens };
  return pattern === undefined ? read(original, region) : search(original, { ...region, pattern });
}

/** Archived messages as a transcript, whose lines can be asked for and searched; any other text as it is. */
function readable(archived: string): string {
  if (!archived.startsWith("{")) return archived;
  try {
    return archived.split("\n").map((line) => transcribe(parseMessage(line))).join("\n\n");
  } catch {
    // A tool's result that begins like JSON.
    return archived;
  }
}

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool"];

/** The message in a line that `archiveMessages` wrote. @throws {Error} if it is none. */
function parseMessage(line: string): Message {
  const value = JSON.parse(line);
  if (ROLES.includes(value?.role) && ("content" in value || "tool_calls" in value)) return value;
  throw new TypeError("Cannot read a message: the line holds something else");
}

function refuse(content: string): Awaited<ReturnType<typeof recallOriginal>> {
  return { content, error: true };
}

/** A stretch of the original, in UTF-16 code units; `end` is exclusive. */
interface Range {
  readonly start: number;
  readonly end: number;
}

type Region = Range & Required<NonNullable<Parameters<typeof recallOriginal>[2]>>;

/** Where these lines stand, or why that can't be said. */
function findLines(original: string, requested: string): Range | string {
  const [, from, dash, to] = /^\s*(\d+)\s*(-\s*(\d*))?\s*$/.exec(requested) ?? [];
  const first = Number(from);
  const last = to ? Number(to) : dash === undefined ? first : Infinity;
  if (!(first >= 1 && last >= first)) {
    return `Cannot recall lines '${requested}': a range looks like 120-180, 120- or 120, counted from 1.`;
  }
  let [line, start] = [1, 0];
  for (; line < first; line += 1) {
    start = original.indexOf("\n", start) + 1;
    if (start === 0) return `Cannot recall lines '${requested}': the original has ${line} lines.`;
  }
  let end = start - 1;
  do {
    end = original.indexOf("\n", end + 1);
    line += 1;
  } while (end >= 0 && line <= last);
  return { start, end: end < 0 ? original.length : end };
}

/** Tokens kept free for the line that says how to go on. */
const NOTICE_TOKENS = 80;

function read(
  original: string,
  { start, end, countTokens, limitTokens }: Region,
): Awaited<ReturnType<typeof recallOriginal>> {
  const text = original.slice(start, end);
  if (fitHead(text, { maxTokens: limitTokens, countTokens }) === text) return { content: text, error: false };
  const shown = fitHead(text, { maxTokens: limitTokens - NOTICE_TOKENS, countTokens });
  const next = start + shown.length;
  const [first, last, all] = [start, next - 1, original.length].map((at) => lineNumber(original, at));
  const notice =
    `[characters ${start} to ${next} of ${original.length}, lines ${first} to ${last} of ${all}; ` +
    `go on with offset ${next}]`;
  return { content: `${shown.replace(/\n$/, "")}\n${notice}`, error: false };
}

/** Matches shown of long lines in one answer: each may cost a walk through the rest of its line. */
const MAX_EXCERPTS = 20;

async function search(
  original: string,
  region: Region & { readonly pattern: string },
): Promise<Awaited<ReturnType<typeof recallOriginal>>> {
  const { start, end, pattern, countTokens, limitTokens } = region;
  // Most of what this package weighs, and few need it.
  const { RE2JS } = await import("re2js");
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(pattern);
  } catch (error) {
    return refuse(
      `Cannot search for '${pattern}': ${(error as Error).message}. Use RE2 syntax: no backreferences, no ` +
        "look-around, a backslash before special characters.",
    );
  }
  const found: string[] = [];
  let [tokens, excerpts] = [0, 0];
  for (const match of searchLines(original, { start, end, expression })) {
    tokens += countTokens(`${match.text}\n`);
    excerpts += match.excerpt ? 1 : 0;
    if (tokens > limitTokens - NOTICE_TOKENS || excerpts > MAX_EXCERPTS) {
      found.push(`[there is more; go on with the same pattern and offset ${match.start}]`);
      break;
    }
    found.push(match.text);
  }
  const content = found.length > 0 ? found.join("\n") : `No match for '${pattern}'.`;
  return { content, error: false };
}

/** One thing found: a line, or what surrounds a match in a long line. */
interface LineMatch {
  /** The line's number, and the line or the excerpt. */
  readonly text: string;
  readonly excerpt: boolean;
  /** Position in the text from which the same search finds this and what comes after it. */
  readonly start: number;
}

/** A longer line is shown only around its matches. */
const LONG_LINE_CHARS = 500;
/** How much of a long line is shown around a match. */
const EXCERPT_CHARS = 300;
/** How much of that before the match; and how much of its end is searched again, for a match that it cut. */
const MARGIN_CHARS = 100;

/** Finds the lines that match, from the position `start` on to the end of the line that `end` ends. */
function* searchLines(
  text: string,
  options: { readonly start: number; readonly end: number; readonly expression: RE2JS },
): Generator<LineMatch> {
  const { start, end, expression } = options;
  let lineStart = start === 0 ? 0 : text.lastIndexOf("\n", start - 1) + 1;
  for (let number = lineNumber(text, lineStart); lineStart <= end; number += 1) {
    const newline = text.indexOf("\n", lineStart);
    const lineEnd = newline < 0 ? text.length : newline;
    const line = text.slice(lineStart, lineEnd);
    if (line.length > LONG_LINE_CHARS) {
      yield* excerpts(line, { number, lineStart, start, expression });
    } else if (expression.test(line)) {
      yield { text: `${number}:${line}`, excerpt: false, start: lineStart };
    }
    lineStart = lineEnd + 1;
  }
}

function* excerpts(
  line: string,
  options: {
    readonly number: number;
    readonly lineStart: number;
    readonly start: number;
    readonly expression: RE2JS;
  },
): Generator<LineMatch> {
  const { number, lineStart, start, expression } = options;
  if (!expression.test(line)) return;
  const matcher = expression.matcher(line);
  let from = Math.max(0, start - lineStart);
  while (from < line.length && matcher.find(from)) {
    const shownFrom = Math.max(from, matcher.start() - MARGIN_CHARS);
    const shown = line.slice(shownFrom, shownFrom + EXCERPT_CHARS).toWellFormed();
    const at = lineStart + shownFrom;
    yield { text: `${number}, offset ${at}: … ${shown} …`, excerpt: true, start: lineStart + from };
    from = Math.max(shownFrom + EXCERPT_CHARS - MARGIN_CHARS, matcher.end());
  }
}

/** Number of the line in which a position stands, from 1. */
function lineNumber(text: string, position: number): number {
  let number = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < position; at = text.indexOf("\n", at + 1)) number += 1;
  return number;
}
