/**
 * Takes old tool results out of a prompt without losing them: they go to an archive, a one-line placeholder stands
 * in their place, and the model can read them back with the recall tool.
 *
 * Everything works on a plain array of chat messages. What is taken out comes back as data too (an {@linkcode Elision}
 * for a result, a {@linkcode TurnsSummary} for old turns), for those who keep the history as it was and apply the changes to it.
 *
 * @example
 * ```ts ignore
 * import { memoryArchive, pruneResults, RECALL_TOOL } from "@tare/prune";
 * import OpenAI from "openai";
 *
 * const archive = memoryArchive();
 * const options = { archive, windowTokens: 32_000, recall: true };
 * const pruned = await pruneResults(messages, options);
 * if (pruned.failure) throw pruned.failure; // what can't be archived doesn't leave
 * const reply = await new OpenAI().chat.completions.create({
 *   model: "gpt-5.5",
 *   messages: [...pruned.messages],
 *   tools: [...tools, RECALL_TOOL],
 * });
 * ```
 *
 * @module
 */
export {
  type Archive,
  type ArchivedMessages,
  archiveMessages,
  type ArchiveMessagesOptions,
  archiveRef,
  memoryArchive,
} from "./archive.ts";
export {
  formatPlaceholder,
  parsePlaceholder,
  type Placeholder,
  type PlaceholderOptions,
} from "./placeholder.ts";
export {
  applyElisions,
  elide,
  type ElideOptions,
  type Elision,
  type ElisionCandidate,
  type PruneFailure,
  type PruneOptions,
  type PruneResult,
  pruneResults,
  selectElisions,
  type SelectOptions,
  type ToolTraits,
} from "./prune_results.ts";
export { looksLikeError } from "./reports_error.ts";
export { recallOriginal } from "./recall.ts";
export {
  RECALL_TOOL,
  type RecallOptions,
  type RecallParameters,
  type RecallRequest,
  type RecallResult,
} from "./recall_tool.ts";
export {
  applySummary,
  type SummarisedTurns,
  type SummariseRequest,
  summariseTurns,
  type SummariseTurnsOptions,
  type SummariseTurnsResult,
  type SummaryMessage,
  type TurnsSummary,
} from "./summarise_turns.ts";
export {
  type ColdResumeOptions,
  isColdResume,
  pressure,
  type PressureOptions,
  type PressureTriggers,
  type Relief,
  type ReliefFailure,
  relievePressure,
  type RelievePressureOptions,
} from "./triggers.ts";
export { type TruncateOptions, truncateResults } from "./truncate_results.ts";
