import { checkGiven, countRequestTokens, type CountTokens, type Message } from "@tare/messages";
import type { Archive } from "./archive.ts";
import { applyElisions, elide, ELIDING, type Elision } from "./elide.ts";
import { selectElisions, type SelectOptions } from "./select_elisions.ts";

/** What may be pruned, and where the originals go. */
export interface PruneOptions extends SelectOptions {
  /** Where the originals go. */
  readonly archive: Archive;
}

/** Originals could not be archived, and so nothing left the messages. */
export interface ArchiveFailure<M extends Message = Message> {
  /** Why they could not be archived. */
  readonly failure: Error;
  /** The very array that was handed in: what to send if the session shall go on nevertheless. */
  readonly unchanged: readonly M[];
}

/** Messages of which some results were elided. */
export interface Pruned<M extends Message = Message> {
  readonly failure?: undefined;
  /** The messages; the very array that was handed in if nothing changed. */
  readonly messages: readonly M[];
  /** What changed, to be kept and applied again (see {@linkcode applyElisions}). */
  readonly elisions: readonly Elision[];
  /** Tokens of all the messages before. */
  readonly tokensBefore: number;
  /** Tokens of all the messages after. */
  readonly tokensAfter: number;
}

/** What came of it. There are no `messages` before `failure` has been looked at. */
export type PruneResult<M extends Message = Message> = Pruned<M> | ArchiveFailure<M>;

/**
 * Replaces every old tool result that may go (see {@linkcode selectElisions}) with a one-line placeholder, after
 * archiving its original. Pruning the outcome again changes nothing and archives nothing. An original that can't be
 * archived is told in the result, and then nothing changes.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { memoryArchive, pruneResults } from "@tare/prune";
 *
 * const log = "x".repeat(5000);
 * const messages: Message[] = [
 *   { role: "user", content: "Is the build green?" },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: log },
 *   { role: "assistant", content: "Yes." },
 * ];
 * const archive = memoryArchive();
 * const pruned = await pruneResults(messages, { archive, countTokens: estimateTokens, protectTokens: 100 });
 * if (pruned.failure) throw pruned.failure;
 * assertStringIncludes(String(pruned.messages[2]?.content), "[elided: log result, 5000 bytes; ref ");
 * assertEquals(await archive.get(pruned.elisions[0]?.ref ?? ""), log);
 * ```
 */
export async function pruneResults<M extends Message>(
  messages: readonly M[],
  options: PruneOptions,
): Promise<PruneResult<M>> {
  checkGiven("pruneResults()", { messages, options }, { messages: "messages", options: ELIDING });
  const elisions = elide(messages, selectElisions(messages, options), options);
  return await settleElisions(messages, { elisions, countTokens: options.countTokens });
}

/** Applies elisions as soon as their originals are archived, or says why they could not be. */
export async function settleElisions<M extends Message>(
  messages: readonly M[],
  options: { readonly elisions: Promise<readonly Elision[]>; readonly countTokens: CountTokens },
): Promise<PruneResult<M>> {
  const tokensBefore = countRequestTokens({ messages }, options.countTokens);
  try {
    const elisions = await options.elisions;
    if (elisions.length === 0) return { messages, elisions, tokensBefore, tokensAfter: tokensBefore };
    const tokensAfter = elisions.reduce((sum, one) => sum - one.tokensBefore + one.tokensAfter, tokensBefore);
    return { messages: applyElisions(messages, elisions), elisions, tokensBefore, tokensAfter };
  } catch (failure) {
    if (!(failure instanceof Error)) throw failure;
    return { failure, unchanged: messages };
  }
}
