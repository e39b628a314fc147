import { checkGiven, countMessageTokens, type Message } from "@tare/messages";
import { type Archive, bytesFromText } from "./archive.ts";
import { resultText } from "./pair_results.ts";
import { formatPlaceholder, splitTruncated } from "./placeholder.ts";
import { type ElisionCandidate, type SelectOptions, traitsOf } from "./select_elisions.ts";

/**
 * Why a result left the prompt: `superseded` by a later result, `old` (behind the protected tail), or `truncated`,
 * cut to head and tail because it was too long when it arrived.
 */
export type ElisionReason = "superseded" | "old" | "truncated";

/**
 * One tool result whose text gives way to a shorter one. Plain data: it can be stored, and applied again to the
 * same history gives the same bytes. Its original stands in the archive.
 */
export interface Elision {
  /** Position of the result in the messages. */
  readonly index: number;
  /** Its `tool_call_id`, as a check that the index still means the same message. */
  readonly toolCallId: string;
  /** Name of the tool that gave it. */
  readonly tool: string;
  /** Archive reference of the original. */
  readonly ref: string;
  /** What stands in the message instead. */
  readonly text: string;
  /** Tokens of the message before. */
  readonly tokensBefore: number;
  /** Tokens of the message after. */
  readonly tokensAfter: number;
  readonly reason: ElisionReason;
}

/**
 * The messages with each elision's text in place of the result's content; everything else is the same object. Meant
 * to be applied to a growing history again and again: an elided message is made once and then reused. Of several
 * elisions of the same message the last counts.
 *
 * @throws {RangeError} if an elision points to anything but the tool result that it was made for.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applyElisions } from "@tare/prune";
 *
 * const messages = applyElisions(
 *   [{ role: "tool", tool_call_id: "a", content: "long" }],
 *   [{ index: 0, toolCallId: "a", text: "short" }],
 * );
 * assertEquals(messages[0]?.content, "short");
 * ```
 */
export function applyElisions<M extends Message>(
  messages: readonly M[],
  elisions: readonly Pick<Elision, "index" | "toolCallId" | "text">[],
): M[] {
  checkGiven("applyElisions()", { messages, elisions }, { messages: "array", elisions: "array" });
  const view = [...messages];
  for (const { index, toolCallId, text } of elisions) {
    const message = messages[index];
    if (message?.role !== "tool" || message.tool_call_id !== toolCallId) {
      throw new RangeError(`Cannot elide message ${index}: it is no tool result with the id '${toolCallId}'`);
    }
    view[index] = withText(message, text);
  }
  return view;
}

const elided = new WeakMap<Message, Message>();

function withText<M extends Message>(message: M, text: string): M {
  if (message.content === text) return message;
  let result = elided.get(message);
  if (result?.content !== text) elided.set(message, result = { ...message, content: text });
  return result as M;
}

/** What the options of whatever elides must hold, as `checkGiven` takes it. */
export const ELIDING = { archive: { put: "function", get: "function" }, countTokens: "function" } as const;

/** Where the originals go, and how the placeholders read. */
export interface ElideOptions extends Pick<SelectOptions, "countTokens" | "tools" | "recall"> {
  /** Where the originals go. */
  readonly archive: Archive;
}

/** Originals that are archived at the same time: each may be an open file. */
const PARALLEL_PUTS = 16;

/**
 * Archives the originals of the chosen results, then makes the elisions that replace them. A result that was
 * truncated on arrival keeps the reference of its whole original.
 *
 * @throws {Error} if a single one can't be archived. Then none is elided, and what was archived does no harm.
 */
export async function elide(
  messages: readonly Message[],
  candidates: readonly ElisionCandidate[],
  options: ElideOptions,
): Promise<Elision[]> {
  checkGiven("elide()", { messages, candidates, options }, {
    messages: "array",
    candidates: "array",
    options: ELIDING,
  });
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
  const text = formatPlaceholder({ of: "result", tool, bytes, ref }, { ...traitsOf(tool, options), recall });
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

/** The whole original of a text that was truncated on arrival, if the archive confirms that it is one. */
async function findWhole(
  text: string,
  archive: Archive,
): Promise<{ readonly ref: string; readonly bytes: number } | undefined> {
  for (const { ref, bytes, head, tail } of splitTruncated(text)) {
    // An original that can't be read is no reason to stop: then the text at hand is archived.
    const whole = await archive.get(ref).catch(() => undefined);
    if (whole !== undefined && whole.startsWith(head) && whole.endsWith(tail)) return { ref, bytes };
  }
  return undefined;
}
