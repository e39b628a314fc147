/**
 * Takes old tool results out of a prompt without losing them: they go to an archive, a one-line placeholder stands
 * in their place, and the model can read them back with the recall tool.
 *
 * Everything works on a plain array of chat messages. What is taken out comes back as data too (an {@linkcode Elision}
 * for a result, a {@linkcode TurnsSummary} for old turns), for those who keep the history as it was and apply the changes to it.
 *
 * @example Before each request of a loop
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { truncateResults, memoryArchive, pressure, pruneResults, RECALL_TOOL, recallOriginal } from "@tare/prune";
 *
 * const options = {
 *   archive: memoryArchive(),
 *   countTokens: estimateTokens,
 *   windowTokens: 32_000,
 *   recall: true,
 *   tools: { read_file: { stance: "rederivable", reads: "path" }, edit_file: { writes: "path" } },
 * } as const;
 *
 * async function beforeRequest(messages: readonly Message[]): Promise<readonly Message[]> {
 *   const truncated = await truncateResults(messages, options);
 *   const { windowTokens } = options;
 *   if (pressure({ promptTokens: truncated.tokensAfter, windowTokens }) === "none") return truncated.messages;
 *   return (await pruneResults(truncated.messages, options)).messages;
 * }
 *
 * // RECALL_TOOL stands among the tools of each request; recallOriginal() answers its calls.
 * assertEquals(RECALL_TOOL.function.name, "recall");
 * const ref = await options.archive.put("a long result");
 * assertEquals((await recallOriginal(options.archive, { ref })).content, "a long result");
 * assertEquals(await beforeRequest([{ role: "user", content: "Hi." }]), [{ role: "user", content: "Hi." }]);
 * ```
 *
 * @module
 */
export * from "./archive.ts";
export { applyElisions, elide, type ElideOptions, type Elision, type ElisionReason } from "./elide.ts";
export * from "./placeholder.ts";
export { type PruneOptions, type PruneResult, pruneResults } from "./prune_results.ts";
export * from "./recall.ts";
export {
  type ElisionCandidate,
  looksLikeError,
  selectElisions,
  type SelectOptions,
  type ToolTraits,
} from "./select_elisions.ts";
export * from "./summarise_turns.ts";
export * from "./triggers.ts";
export * from "./truncate_results.ts";
