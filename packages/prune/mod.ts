/**
 * Prunes old tool results without loss: originals are archived, a one-line placeholder replaces each, and the
 * model reads them with the recall tool.
 *
 * Works on plain arrays of chat messages. Changes are returned as data as well (an {@linkcode Elision} per
 * result, the `summary` of {@linkcode SummarizedTurns} for old turns), for callers that keep the original
 * history.
 *
 * @example
 * ```ts ignore
 * import { memoryArchive, pruneResults, RECALL_TOOL } from "@tare/prune";
 * import OpenAI from "openai";
 *
 * const archive = memoryArchive();
 * const options = { archive, windowTokens: 32_000, recall: true };
 * const pruned = await pruneResults(messages, options);
 * if (pruned.failure) throw pruned.failure; // unarchived results are not evicted
 * const reply = await new OpenAI().chat.completions.create({
 *   model: "gpt-5.5",
 *   messages: [...pruned.messages],
 *   tools: [...tools, RECALL_TOOL],
 * });
 * ```
 *
 * @module
 */
export { type Archive, archiveRef, memoryArchive } from "./archive.ts";
export {
  applyElisions,
  elide,
  type Elision,
  type PruneFailure,
  type PruneOptions,
  type PruneResult,
  pruneResults,
  selectElisions,
  type ToolTraits,
} from "./prune_results.ts";
export { recallOriginal } from "./recall.ts";
export { RECALL_TOOL, type RecallOptions, type RecallRequest, type RecallResult } from "./recall_tool.ts";
export {
  applySummary,
  type SummarizedTurns,
  summarizeTurns,
  type SummarizeTurnsOptions,
  type SummaryMessage,
} from "./summarize_turns.ts";
export {
  type ColdResumeOptions,
  isColdResume,
  pressure,
  type PressureOptions,
  type Relief,
  relievePressure,
  type RelievePressureOptions,
} from "./triggers.ts";
export { type TruncateOptions, truncateResults } from "./truncate_results.ts";
