/**
 * Eliding tool results.
 *
 * @module
 */
export * from "./apply_elisions.ts";
export * from "./archive.ts";
export * from "./archive_bytes.ts";
export * from "./archive_ref.ts";
export * from "./bound_results.ts";
export { BOUND_TOKENS, boundText, type BoundTextOptions } from "./bound_text.ts";
export { elide, type ElideOptions } from "./elide.ts";
export * from "./memory_archive.ts";
export * from "./placeholder.ts";
export { type PruneOptions, type PruneResult, pruneResults } from "./prune_results.ts";
export * from "./recall_original.ts";
export * from "./recall_tool.ts";
export {
  type ElisionCandidate,
  looksLikeError,
  selectElisions,
  type SelectOptions,
  type ToolTraits,
} from "./select_elisions.ts";
export * from "./apply_fold.ts";
export * from "./fold.ts";
export * from "./is_cold_resume.ts";
export * from "./pressure.ts";
export * from "./relieve_pressure.ts";
