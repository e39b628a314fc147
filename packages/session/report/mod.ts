/**
 * Reports of a session for users: calls, prompt blocks, pins and totals. A separate entry point, so that loops without
 * reports don't load it.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { reportPrompt } from "@tare/session/internal/report";
 *
 * const history = { messages: [{ role: "user", content: "Hello." }], tools: [] } as const;
 * // The view of a session without evictions.
 * const view = { ...history, places: [0] };
 * const { blocks } = reportPrompt({ history, view, pins: [], countTokens: estimateTokens });
 * assertEquals(blocks.map(({ id, state, title }) => [id, state, title]), [["message-0", "visible", "Hello."]]);
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
  type CallReportOptions,
  callToStore,
  type Days,
  type GroupReport,
  type GroupTotals,
  type LedgerReport,
  type Overview,
  type ProjectedReport,
  reportCall,
  ReportedWarnings,
  type SessionGroup,
  type SessionTotalsRecord,
  SPENT_ON,
  type SpentOn,
  type SpentReport,
  storedCall,
  TOTALS,
  UNFINISHED,
  type UsageTotals,
  usageTotals,
  type WarningReport,
} from "./calls.ts";
export {
  byCostDescending,
  keepAliveUsdOfToday,
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
  type PromptSnapshot,
  reportBlock,
  reportPins,
  reportPrompt,
} from "./prompt_report.ts";
