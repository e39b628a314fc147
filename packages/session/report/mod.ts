/**
 * A prompt session as people are shown it: its calls, its prompt block by block, its pins, and what all of them came to.
 * Functions that make these reports. An entry point of its own, so that a loop which shows
 * nobody anything doesn't carry it.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { reportPrompt } from "@tare/session/internal/report";
 *
 * const history = { messages: [{ role: "user", content: "Hello." }], tools: [] } as const;
 * // As a session's view shows it: nothing has left.
 * const view = { ...history, places: [0] };
 * const { blocks } = reportPrompt({ history, view, pins: [], countTokens: estimateTokens });
 * assertEquals(blocks.map(({ id, state, title }) => [id, state, title]), [["message-0", "alive", "Hello."]]);
 * ```
 *
 * @module
 */
export {
  Accounts,
  type AccountsQuery,
  addDays,
  type AddedSessions,
  addToDay,
  type BaselineReport,
  type CallReport,
  callToStore,
  type Days,
  type GroupReport,
  type GroupSums,
  type LedgerReport,
  type Overview,
  type ProjectedReport,
  reportCall,
  type ReportedCall,
  type SessionGroup,
  type SessionSums,
  SPENT_ON,
  type SpentOn,
  type SpentReport,
  storedCall,
  type Sums,
  sumsOf,
  ToldWarnings,
  TOTALS,
  UNFINISHED,
  type WarningReport,
} from "./calls.ts";
export {
  dearest,
  pingUsdOfToday,
  reportSpend,
  SPEND_BY,
  type SpendingReport,
  type SpendingSession,
  type SpendOptions,
  type SpendRow,
} from "./spend.ts";
export {
  type BlockOptions,
  type BlockReport,
  type BlocksOptions,
  type BlockSummary,
  type BlockText,
  type PinReport,
  type PromptReport,
  reportBlock,
  reportPins,
  reportPrompt,
  type SeenSession,
} from "./prompt_report.ts";
