/**
 * A simulated OpenAI-compatible provider with a faithful prefix cache, and models to put behind it.
 *
 * @module
 */
export type { Fault, ToolCallPieces } from "./fault.ts";
export * from "./model.ts";
export type { Encoder } from "./prompt_units.ts";
export * from "./rehearsal.ts";
export * from "./replay.ts";
export * from "./scripted.ts";
export * from "./simulator.ts";
export type { Dialect } from "./wire_usage.ts";
