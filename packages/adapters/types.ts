/**
 * Types that the adapters of all frameworks share: options, ledger, prompts and the recall tool.
 *
 * @module
 */
export type {
  AdapterLedgerEntry,
  AdapterTotal,
  Books,
  MemoryLimits,
  PlanningOptions,
  StateStore,
  TareOptions,
} from "./options.ts";
export type {
  FrameworkRecallTool,
  PromptMessage,
  PromptPart,
  RecallCall,
  RecallSchema,
  SchemaConverters,
  StandardSchema,
  ValidValue,
} from "./model_prompt.ts";
