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
export { type RecallOptions, recallOriginal, type RecallRequest, type RecallResult } from "./recall.ts";
export { RECALL_TOOL, type RecallParameters } from "./recall_tool.ts";
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
