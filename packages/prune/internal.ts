/**
 * Internal API for Tare's packages, without stability guarantees.
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
  type ElideOptions,
  type ElisionCandidate,
  looksLikeError,
  reportsError,
  resultOriginal,
  resultText,
  type SelectOptions,
  traitsOf,
} from "./prune_results.ts";
export type { TurnsSummary } from "./summarize_turns.ts";
export { truncateText, type TruncateTextOptions } from "./truncate_results.ts";
