/**
 * When is a prompt worth rewriting? Edits and the view that they give, provider cache profiles, a model of their
 * caches, and the rule that weighs a rewrite against the cache that it breaks.
 *
 * @module
 */
export * from "./edit.ts";
export * from "./prefix_cache.ts";
export * from "./profile.ts";
export * from "./view.ts";
