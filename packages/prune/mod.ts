/**
 * Takes old tool results out of a prompt without losing them: they go to an archive, a one-line placeholder stands
 * in their place, and the model can read them back with the recall tool.
 *
 * Everything works on a plain array of chat messages. What is taken out comes back as data too (an {@linkcode Elision}
 * for a result, a {@linkcode Fold} for old turns), for those who keep the history as it was and apply the changes to it.
 *
 * @example Before each request of a loop
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { boundResults, memoryArchive, pressure, pruneResults, RECALL_TOOL, recallOriginal } from "@tare/prune";
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
 *   const bounded = await boundResults(messages, options);
 *   const { windowTokens } = options;
 *   if (pressure({ promptTokens: bounded.tokensAfter, windowTokens }) === "none") return bounded.messages;
 *   return (await pruneResults(bounded.messages, options)).messages;
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
export * from "./apply_elisions.ts";
export * from "./apply_fold.ts";
export * from "./archive.ts";
export * from "./archive_bytes.ts";
export * from "./archive_ref.ts";
export * from "./bound_results.ts";
export { BOUND_TOKENS, boundText, type BoundTextOptions } from "./bound_text.ts";
export { elide, type ElideOptions } from "./elide.ts";
export * from "./fold.ts";
export * from "./is_cold_resume.ts";
export * from "./memory_archive.ts";
export * from "./placeholder.ts";
export * from "./pressure.ts";
export { type PruneOptions, type PruneResult, pruneResults } from "./prune_results.ts";
export * from "./recall_original.ts";
export * from "./recall_tool.ts";
export * from "./relieve_pressure.ts";
export {
  type ElisionCandidate,
  looksLikeError,
  selectElisions,
  type SelectOptions,
  type ToolTraits,
} from "./select_elisions.ts";
