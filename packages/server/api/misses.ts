import type { SessionCalls } from "@tare/session/internal";
import { byCostDescending, type CallReport } from "@tare/session/internal/report";
import { type Static, Type } from "typebox";
import type { Reads } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import { numbers, PREFIX_CHANGE } from "./report_schemas.ts";
import { pricesOf } from "./session_spend.ts";

/** Causes of cache misses, with their names and remedies. */
export const MISSES: Readonly<
  Record<
    | "changed_instructions"
    | "changed_message"
    | "changed_tools"
    | "not_marked"
    | "routed"
    | "expired_tool"
    | "expired_approval"
    | "expired_user"
    | "own_rewrite"
    | "model_changed"
    | "evicted"
    | "too_small"
    | "first_call"
    | "new",
    {
      readonly name: string;
      readonly isAvoidable: boolean;
      readonly remedy: string;
    }
  >
> = {
  changed_instructions: {
    name: "the client changes its instructions",
    isAvoidable: true,
    remedy: "Remove what changes from the instructions, or put it after the last message. Tare can't: it " +
      "changes no content.",
  },
  changed_message: {
    name: "the client changes earlier messages",
    isAvoidable: true,
    remedy: "Let the client repeat it at the end, and leave earlier messages unchanged. Tare can't: it " +
      "changes no content.",
  },
  changed_tools: {
    name: "the client's tools change",
    isAvoidable: true,
    remedy: "Send the same tools, with the same definitions, for the whole session. Tare keeps their order " +
      "and spelling.",
  },
  not_marked: {
    name: "the client sets too few cache breakpoints",
    isAvoidable: true,
    remedy: "Tare sets a breakpoint at the end of a continued conversation if the client leaves one free,  " +
      "and at Anthropic if it sets none; not in a dry run. Otherwise set one at the last message " +
      "(cache_control).",
  },
  routed: {
    name: "served by another machine",
    isAvoidable: true,
    remedy: "Tare sends a key per conversation to providers that accept one (prompt_cache_key). For  " +
      "others, contact the provider.",
  },
  expired_tool: {
    name: "expired while a tool ran",
    isAvoidable: true,
    remedy: "Tare keeps the cache of its own turns alive meanwhile; of other agents' with " +
      "TARE_KEEP_ALIVE=$0.50/day. Otherwise use tools that are faster than the cache's time to live, or " +
      "a cache for an hour (anthropic-1h).",
  },
  expired_approval: {
    name: "expired while an approval was pending",
    isAvoidable: true,
    remedy: "Answer sooner, or allow such calls by a rule. Tare keeps a cache with a time to live of five " +
      "minutes alive for about twenty minutes, but not longer.",
  },
  expired_user: {
    name: "expired while the user paused",
    isAvoidable: true,
    remedy:
      "Keep the cache alive: TARE_KEEP_ALIVE=$0.50/day, or for one session with POST …/keep_alive. After it has " +
      "expired, Tare prunes before the prompt is cached again.",
  },
  own_rewrite: {
    name: "moved by a rewrite of Tare",
    isAvoidable: false,
    remedy: "The rewrite cost no more than carrying the evicted content; the ledger contains the estimated " +
      "saving.",
  },
  model_changed: {
    name: "another model",
    isAvoidable: false,
    remedy: "Each model has its own cache: change the model between sessions rather than within one.",
  },
  evicted: {
    name: "evicted by the provider",
    isAvoidable: false,
    remedy: "The provider dropped it early; the reason is unknown.",
  },
  too_small: {
    name: "too small to be cached",
    isAvoidable: false,
    remedy: "Providers cache prompts from a minimum size, often 1,024 tokens.",
  },
  first_call: { name: "first calls", isAvoidable: false, remedy: "These tokens were never sent before." },
  new: { name: "new", isAvoidable: false, remedy: "These tokens were never sent before." },
};

export const MISSES_REPORT = closed({
  sessions: COUNT,
  calls: COUNT,
  promptTokens: Type.Number(),
  cachedTokens: Type.Number(),
  misses: Type.Array(closed({
    cause: Type.Enum(Object.keys(MISSES) as (keyof typeof MISSES)[]),
    name: Type.String(),
    avoidable: Type.Boolean(),
    remedy: Type.String(),
    calls: COUNT,
    ...numbers(["tokens", "costUnits", "usd"]),
    unpricedCalls: COUNT,
    dearest: closed(
      { session: Type.String(), call: COUNT, tokens: Type.Number(), changed: PREFIX_CHANGE },
      "DearestMiss",
    ),
  }, "Miss")),
}, "Misses");

/** Cache misses and their causes: avoidable ones first, each the most expensive first. */
export type MissesReport = Reads<Static<typeof MISSES_REPORT>>;

type Miss = MissesReport["misses"][number];

/**
 * Shortest pause in which a cache may drop content, in milliseconds; a miss after a shorter one is due to routing.
 */
const ROUTED_MS = 60_000;

/** Smallest prompt that most paid providers cache, in tokens. */
const LEAST_CACHED_TOKENS = 1_024;

/** Largest block that providers cache by, in tokens: the estimate of cached tokens may be too high by one. */
const BLOCK_TOKENS = 128;

/** Returns the causes of cache misses over sessions. A missed token costs its call's price of an uncached token. */
export async function reportMisses(
  sessions: AsyncIterable<SessionCalls> | Iterable<SessionCalls>,
  { from = "", to = "9999-12-31" }: {
    readonly from?: string | undefined;
    readonly to?: string | undefined;
  } = {},
): Promise<MissesReport> {
  const found = new Map<Miss["cause"], Omit<Miss, "name" | "avoidable" | "remedy">>();
  const totals = { sessions: 0, calls: 0, promptTokens: 0, cachedTokens: 0 };
  for await (const { id, calls } of sessions) {
    let isSeen = false;
    for (const [at, call] of calls.entries()) {
      const day = call.at?.slice(0, "2026-01-31".length);
      if (day !== undefined && (day < from || day > to)) continue;
      isSeen = true;
      totals.calls++;
      totals.promptTokens += call.promptTokens;
      totals.cachedTokens += call.cachedTokens;
      const price = pricesOf(call, "fresh") ?? { costUnits: 0, usd: 0 };
      for (const one of call.uncached) {
        const { tokens } = one;
        const cause = causeOf(one, call, calls[at - 1]);
        const before = found.get(cause);
        const isDearest = !before || before.dearest.tokens < tokens;
        found.set(cause, {
          cause,
          calls: (before?.calls ?? 0) + 1,
          tokens: (before?.tokens ?? 0) + tokens,
          costUnits: (before?.costUnits ?? 0) + tokens * price.costUnits,
          usd: (before?.usd ?? 0) + tokens * price.usd,
          unpricedCalls: (before?.unpricedCalls ?? 0) + (call.usd === null ? 1 : 0),
          dearest: isDearest
            ? { session: id, call: call.number, tokens, changed: call.changed }
            : before.dearest,
        });
      }
    }
    if (isSeen) totals.sessions++;
  }
  const misses = Array.from(found.values(), (miss): Miss => {
    const { name, isAvoidable: avoidable, remedy } = MISSES[miss.cause];
    return { ...miss, name, avoidable, remedy };
  });
  misses.sort((a, b) => Number(b.avoidable) - Number(a.avoidable) || byCostDescending(a, b));
  return { ...totals, misses };
}

/** Returns the cause by the event that the call waited for. */
function causeOf(
  { cause, tokens }: CallReport["uncached"][number],
  call: CallReport,
  before: CallReport | undefined,
): Miss["cause"] {
  switch (cause) {
    case "client_changed":
      return call.changed?.where === "instructions" ? "changed_instructions" : "changed_message";
    case "tools_changed":
      return "changed_tools";
    case "expired":
      if (call.afterQuestion) return "expired_approval";
      return call.turn !== null && before?.turn === call.turn ? "expired_tool" : "expired_user";
    case "provider_lost":
      if (tokens <= BLOCK_TOKENS) return "new";
      return before && pauseMs(before, call) < ROUTED_MS ? "routed" : "evicted";
    case "new":
      return call.promptTokens < LEAST_CACHED_TOKENS ? "too_small" : "new";
    default:
      return cause;
  }
}

function pauseMs(before: CallReport, { at }: CallReport): number {
  return before.at === null || at === null ? Infinity : Date.parse(at) - Date.parse(before.at);
}
