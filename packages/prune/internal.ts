/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { archiveText, bytesFromText, isArchiveRef, textFromBytes } from "./archive.ts";
export { type ArchivedStretch, archiveWithLine, placeholderRefs } from "./placeholder.ts";
export { resultOriginal, resultText, traitsOf } from "./prune_results.ts";
export { reportsError } from "./reports_error.ts";
export { truncateText, type TruncateTextOptions } from "./truncate_results.ts";
