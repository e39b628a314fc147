import { countMessageTokens, type Message } from "@tare/messages";
import type { Elision } from "./apply_elisions.ts";
import type { Archive } from "./archive.ts";
import { bytesFromText } from "./archive_bytes.ts";
import { splitBounded } from "./bound_text.ts";
import { resultText } from "./pair_results.ts";
import { formatPlaceholder } from "./placeholder.ts";
import { type ElisionCandidate, type SelectOptions, traitsOf } from "./select_elisions.ts";

/** Where the originals go, and how the placeholders read. */
export interface ElideOptions extends Pick<SelectOptions, "countTokens" | "tools" | "recall"> {
  /** Where the originals go. */
  readonly archive: Archive;
}

/** Originals that are archived at the same time: each may be an open file. */
const PARALLEL_PUTS = 16;

/**
 * Archives the originals of the chosen results, then makes the elisions that replace them. A result that was
 * bounded on arrival keeps the reference of its whole original.
 *
 * @throws {Error} if a single one can't be archived. Then none is elided, and what was archived does no harm.
 */
export async function elide(
  messages: readonly Message[],
  candidates: readonly ElisionCandidate[],
  options: ElideOptions,
): Promise<Elision[]> {
  const elisions: Elision[] = [];
  for (let from = 0; from < candidates.length; from += PARALLEL_PUTS) {
    const batch = candidates.slice(from, from + PARALLEL_PUTS);
    const settled = await Promise.allSettled(
      batch.map((candidate) => elideOne(messages, candidate, options)),
    );
    for (const outcome of settled) {
      if (outcome.status === "rejected") throw outcome.reason;
      elisions.push(outcome.value);
    }
  }
  return elisions;
}

async function elideOne(
  messages: readonly Message[],
  candidate: ElisionCandidate,
  options: ElideOptions,
): Promise<Elision> {
  const { archive, countTokens, recall = false } = options;
  const { index, tool } = candidate;
  const message = messages[index];
  const original = message?.role === "tool" ? resultText(message) : undefined;
  if (message === undefined || original === undefined) {
    throw new RangeError(`Cannot elide message ${index}: it is no tool result of text alone`);
  }
  const { ref, bytes } = await findWhole(original, archive) ??
    { ref: await archiveResult(original, { archive, tool }), bytes: bytesFromText(original).length };
  const text = formatPlaceholder({ tool, bytes, ref, middle: false }, { ...traitsOf(tool, options), recall });
  const tokensAfter = countMessageTokens({ ...message, content: text }, countTokens);
  return { ...candidate, ref, text, tokensAfter };
}

/**
 * Puts the text of a result into the archive.
 *
 * @throws {Error} naming the tool, if it can't be archived.
 */
export async function archiveResult(
  text: string,
  { archive, tool }: { readonly archive: Archive; readonly tool: string },
): Promise<string> {
  try {
    return await archive.put(text);
  } catch (cause) {
    throw new Error(`Cannot archive a result of ${tool}: ${(cause as Error).message}`, { cause });
  }
}

/** The whole original of a text that was bounded on arrival, if the archive confirms that it is one. */
async function findWhole(
  text: string,
  archive: Archive,
): Promise<{ readonly ref: string; readonly bytes: number } | undefined> {
  for (const { ref, bytes, head, tail } of splitBounded(text)) {
    // An original that can't be read is no reason to stop: then the text at hand is archived.
    const whole = await archive.get(ref).catch(() => undefined);
    if (whole !== undefined && whole.startsWith(head) && whole.endsWith(tail)) return { ref, bytes };
  }
  return undefined;
}
