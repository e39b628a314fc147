/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export {
  type ArchivedMessages,
  archiveMessages,
  type ArchiveMessagesOptions,
  archiveText,
  bytesFromText,
  isArchiveRef,
  textFromBytes,
} from "./archive.ts";
export {
  type ArchivedStretch,
  archiveWithLine,
  formatPlaceholder,
  parsePlaceholder,
  type Placeholder,
  type PlaceholderOptions,
  placeholderRefs,
} from "./placeholder.ts";
export {
  elide,
  type ElideOptions,
  type ElisionCandidate,
  resultOriginal,
  resultText,
  selectElisions,
  type SelectOptions,
  traitsOf,
} from "./prune_results.ts";
export { looksLikeError, reportsError } from "./reports_error.ts";
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
  type Relief,
  type ReliefFailure,
  relievePressure,
  type RelievePressureOptions,
} from "./triggers.ts";
export { truncateText, type TruncateTextOptions } from "./truncate_results.ts";
