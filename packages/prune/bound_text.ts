import type { CountTokens } from "@tare/messages";
import { bytesFromText } from "./archive_bytes.ts";
import { fitHead, fitTail } from "./fit_text.ts";
import { formatPlaceholder, parsePlaceholder, type PlaceholderOptions } from "./placeholder.ts";

/** How a long text is cut. */
export interface BoundTextOptions extends PlaceholderOptions {
  /** Counts tokens. */
  readonly countTokens: CountTokens;
  /** Longest text that stays whole, and longest text that comes out, in tokens. Default 8,000. */
  readonly limitTokens?: number;
  /** Name of the tool that gave the text. */
  readonly tool: string;
  /** Archive reference of the whole text. */
  readonly ref: string;
}

/** Longest result that enters the prompt whole, in tokens. */
export const BOUND_TOKENS = 8_000;

/**
 * A text that is too long, as its head, a placeholder line and its tail, cut at line breaks where there are any
 * and never within a character. A text within the limit comes back as it is. A limit that has no room for more
 * gives the placeholder alone.
 */
export function boundText(text: string, options: BoundTextOptions): string {
  const { countTokens, limitTokens = BOUND_TOKENS, tool, ref } = options;
  if (countTokens(text) <= limitTokens) return text;
  const bytes = bytesFromText(text).length;
  const line = formatPlaceholder({ tool, bytes, ref, middle: true }, options);
  // Half for the head, half for the tail. Where the pieces meet, joining them may add a token or two.
  for (
    let maxTokens = (limitTokens - countTokens(line)) / 2;
    maxTokens >= 1;
    maxTokens = maxTokens * 0.95 - 1
  ) {
    const head = fitHead(text, { maxTokens, countTokens });
    const tail = fitTail(text.slice(head.length), { maxTokens, countTokens });
    const bounded = `${head.replace(/\n$/, "")}\n${line}\n${tail}`;
    if (countTokens(bounded) <= limitTokens) return bounded;
  }
  return formatPlaceholder({ tool, bytes, ref, middle: false }, options);
}

/** The placeholders in a text that could be a bounded one, each with what stands before and after it. */
export function* splitBounded(
  text: string,
): Generator<{ ref: string; bytes: number; head: string; tail: string }> {
  for (const { 0: line, index } of text.matchAll(/^\[elided: middle of .{1,200}\]$/gm)) {
    const placeholder = parsePlaceholder(line);
    if (placeholder === undefined) continue;
    const head = text.slice(0, Math.max(0, index - 1));
    yield { ...placeholder, head, tail: text.slice(index + line.length + 1) };
  }
}
