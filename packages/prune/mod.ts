/**
 * Takes old tool results out of a prompt without losing them: they go to an archive, a one-line placeholder stands
 * in their place, and the model can read them back with the recall tool.
 *
 * Everything works on a plain array of chat messages. What is taken out comes back as data too (an {@linkcode Elision}
 * for a result, a {@linkcode TurnsSummary} for old turns), for those who keep the history as it was and apply the changes to it.
 *
 * README.md shows it in use.
 *
 * @module
 */
export * from "./archive.ts";
export { applyElisions, elide, type ElideOptions, type Elision, type ElisionReason } from "./elide.ts";
export * from "./placeholder.ts";
export { resultText } from "./pair_results.ts";
export {
  type ArchiveFailure,
  type Pruned,
  type PruneOptions,
  type PruneResult,
  pruneResults,
} from "./prune_results.ts";
export * from "./recall.ts";
export {
  type ElisionCandidate,
  looksLikeError,
  selectElisions,
  type SelectOptions,
  type ToolTraits,
  traitsOf,
} from "./select_elisions.ts";
export {
  applySummary,
  type AskForSummary,
  type Summarised,
  type SummariseOptions,
  type SummariseResult,
  summariseTurns,
  type SummaryMessage,
  type TurnsSummary,
} from "./summarise_turns.ts";
export * from "./triggers.ts";
export * from "./truncate_results.ts";
