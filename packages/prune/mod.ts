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
export { type Archive, archiveMessages, archiveRef, memoryArchive } from "./archive.ts";
export { formatPlaceholder, parsePlaceholder } from "./placeholder.ts";
export {
  applyElisions,
  elide,
  type Elision,
  type PruneOptions,
  pruneResults,
  selectElisions,
} from "./prune_results.ts";
export { looksLikeError } from "./reports_error.ts";
export { recallOriginal } from "./recall.ts";
export { RECALL_TOOL, type RecallParameters } from "./recall_tool.ts";
export { applySummary, summariseTurns, type TurnsSummary } from "./summarise_turns.ts";
export { isColdResume, pressure, relievePressure } from "./triggers.ts";
export { truncateResults } from "./truncate_results.ts";
