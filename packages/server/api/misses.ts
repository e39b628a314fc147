import type { SessionCalls } from "@tare/session/internal";
import { type CallReport, dearest } from "@tare/session/internal/report";
import { type Static, Type } from "typebox";
import type { Reads } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import { numbers, PREFIX_CHANGE } from "./report_schemas.ts";
import { pricesOf } from "./session_spend.ts";

/** The kinds of tokens that weren't read from the cache: what each is called, and what can be done about it. */
export const MISSES: Readonly<
  Record<
    | "changed_instructions"
    | "changed_message"
    | "changed_tools"
    | "not_marked"
    | "routed"
    | "expired_tool"
    | "expired_question"
    | "expired_person"
    | "own_rewrite"
    | "model_changed"
    | "evicted"
    | "too_small"
    | "first_call"
    | "new",
    {
      readonly name: string;
      /** Whether it need not have been. */
      readonly isAvoidable: boolean;
      /** What would mend it, or what Tare does already. */
      readonly remedy: string;
    }
  >
> = {
  changed_instructions: {
    name: "the client changes its instructions",
    isAvoidable: true,
    remedy:
      "Take what changes out of the instructions, or put it behind the last message. Tare can't: it is what was said.",
  },
  changed_message: {
    name: "the client changes what was said",
    isAvoidable: true,
    remedy:
      "Let the client say it anew at the end, and leave what was said. Tare can't: it is what was said.",
  },
  changed_tools: {
    name: "the client's tools change",
    isAvoidable: true,
    remedy:
      "Keep the same tools, saying the same, for the whole session. Tare keeps their order and spelling.",
  },
  not_marked: {
    name: "the client marks too few places",
    isAvoidable: true,
    remedy:
      "Tare marks the end of a conversation that goes on where the client leaves marks over, and at Anthropic where it " +
      "sets none; not where it observes. Else mark the last message (cache_control).",
  },
  routed: {
    name: "served by another machine",
    isAvoidable: true,
    remedy:
      "Tare names the conversation to providers that are known to take it (prompt_cache_key). Elsewhere ask the provider.",
  },
  expired_tool: {
    name: "expired while a tool ran",
    isAvoidable: true,
    remedy:
      "Of its own turns Tare keeps the prompt warm meanwhile; of other agents' with TARE_KEEP_WARM=$0.50/day. Else tools " +
      "that are faster than the cache's time, or a cache for an hour (anthropic-1h).",
  },
  expired_question: {
    name: "expired while a question waited",
    isAvoidable: true,
    remedy:
      "Answer sooner, or allow such calls by a rule. Tare keeps the prompt warm for some twenty minutes where the " +
      "provider's cache lives five, but not longer.",
  },
  expired_person: {
    name: "expired while a person paused",
    isAvoidable: true,
    remedy:
      "Keep it warm: TARE_KEEP_WARM=$0.50/day, or for one session with keep_warm. Where the cache is gone, Tare prunes " +
      "before it is written anew.",
  },
  own_rewrite: {
    name: "moved by a rewrite of Tare's",
    isAvoidable: false,
    remedy: "It was bought because carrying what left had cost as much; the ledger says what it saved.",
  },
  model_changed: {
    name: "another model",
    isAvoidable: false,
    remedy: "Each model has a cache of its own: change it between sessions rather than within one.",
  },
  evicted: {
    name: "evicted by the provider",
    isAvoidable: false,
    remedy: "The provider dropped it before its time; nobody can say more.",
  },
  too_small: {
    name: "too small to be cached",
    isAvoidable: false,
    remedy: "Providers cache prompts from some size on, often 1,024 tokens.",
  },
  first_call: { name: "first calls", isAvoidable: false, remedy: "What was never sent is in no cache." },
  new: { name: "new", isAvoidable: false, remedy: "What was never sent is in no cache." },
};

/** What wasn't read from the cache, and why. */
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
    ...numbers(["tokens", "tokenUnits", "usd"]),
    unpricedCalls: COUNT,
    dearest: closed(
      { session: Type.String(), call: COUNT, tokens: Type.Number(), changed: PREFIX_CHANGE },
      "DearestMiss",
    ),
  }, "Miss")),
}, "Misses");

/** What wasn't read from the cache, and why: what need not have been first, each the dearest first. */
export type MissesReport = Reads<Static<typeof MISSES_REPORT>>;

type Miss = MissesReport["misses"][number];

/** A shorter pause than this one in milliseconds no cache drops anything in: then another machine was asked. */
const ROUTED_MS = 60_000;

/** No prompt that has fewer tokens is cached by those that take money for it, but for few. */
const LEAST_CACHED_TOKENS = 1_024;

/** Providers cache by blocks of so many tokens or fewer: by one of them our count of what is cached may be too high. */
const BLOCK_TOKENS = 128;

/**
 * Why tokens of prompts weren't read from the cache, over sessions. What a token cost is what its call paid for one that
 * wasn't cached.
 */
export async function reportMisses(
  sessions: AsyncIterable<SessionCalls> | Iterable<SessionCalls>,
  { from = "", to = "9999-12-31" }: {
    /** First and last day, by UTC, such as `2026-01-31`. Default: any. */
    readonly from?: string | undefined;
    readonly to?: string | undefined;
  } = {},
): Promise<MissesReport> {
  const found = new Map<Miss["cause"], Omit<Miss, "name" | "avoidable" | "remedy">>();
  const sums = { sessions: 0, calls: 0, promptTokens: 0, cachedTokens: 0 };
  for await (const { id, calls } of sessions) {
    let isSeen = false;
    for (const [at, call] of calls.entries()) {
      const day = call.at?.slice(0, "2026-01-31".length);
      if (day !== undefined && (day < from || day > to)) continue;
      isSeen = true;
      sums.calls++;
      sums.promptTokens += call.promptTokens;
      sums.cachedTokens += call.cachedTokens;
      const price = pricesOf(call, "fresh") ?? { tokenUnits: 0, usd: 0 };
      for (const one of call.uncached) {
        const { tokens } = one;
        const cause = causeOf(one, call, calls[at - 1]);
        const before = found.get(cause);
        const isDearest = !before || before.dearest.tokens < tokens;
        found.set(cause, {
          cause,
          calls: (before?.calls ?? 0) + 1,
          tokens: (before?.tokens ?? 0) + tokens,
          tokenUnits: (before?.tokenUnits ?? 0) + tokens * price.tokenUnits,
          usd: (before?.usd ?? 0) + tokens * price.usd,
          unpricedCalls: (before?.unpricedCalls ?? 0) + (call.usd === null ? 1 : 0),
          dearest: isDearest
            ? { session: id, call: call.number, tokens, changed: call.changed }
            : before.dearest,
        });
      }
    }
    if (isSeen) sums.sessions++;
  }
  const misses = Array.from(found.values(), (miss): Miss => {
    const { name, isAvoidable: avoidable, remedy } = MISSES[miss.cause];
    return { ...miss, name, avoidable, remedy };
  });
  misses.sort((a, b) => Number(b.avoidable) - Number(a.avoidable) || dearest(a, b));
  return { ...sums, misses };
}

/** What a cause in the ledger comes to, by what the call waited for. */
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
      if (call.afterQuestion) return "expired_question";
      return call.turn !== null && before?.turn === call.turn ? "expired_tool" : "expired_person";
    case "provider_lost":
      if (tokens <= BLOCK_TOKENS) return "new";
      return before && pauseMs(before, call) < ROUTED_MS ? "routed" : "evicted";
    case "new":
      return call.promptTokens < LEAST_CACHED_TOKENS ? "too_small" : "new";
    default:
      return cause;
  }
}

/** From when a call was answered to when the next was; infinite where that isn't known. */
function pauseMs(before: CallReport, { at }: CallReport): number {
  return before.at === null || at === null ? Infinity : Date.parse(at) - Date.parse(before.at);
}
