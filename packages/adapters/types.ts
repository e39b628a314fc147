/**
 * Types shared by all adapters: options, ledger, prompts and the recall tool.
 *
 * @module
 */
export type { AdapterLedger, StateStore, TareOptions } from "./options.ts";
export type { FrameworkRecallTool, PromptMessage } from "./model_prompt.ts";
