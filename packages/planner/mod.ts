/**
 * When is a prompt worth rewriting? Edits and the view that they give, provider cache profiles, a model of their
 * caches, and the rule that weighs a rewrite against the cache that it breaks.
 *
 * @module
 */
export * from "./edit.ts";
export * from "./planner.ts";
export * from "./prefix_cache.ts";
export * from "./price.ts";
export * from "./profile.ts";
export { promptUnits } from "./prompt_units.ts";
export * from "./retention.ts";
export { type Conversation, view } from "./view.ts";
