/**
 * Types that the adapters of all frameworks share: options, ledger, prompts and the recall tool.
 *
 * @module
 */
export type { Books, StateStore, TareOptions } from "./options.ts";
export type { FrameworkRecallTool, PromptMessage } from "./model_prompt.ts";
