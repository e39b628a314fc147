/**
 * Reports costs: `deno task spend`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { type CallReport, SPEND_BY, SPENT_ON, type UsageTotals } from "@tare/session/internal/report";
import { API_PATH, type SessionSpend, type SpendReport } from "../server/client.ts";
import { checkDays, KEY_NOTE, option, optionOr, REPORT_OPTIONS, runCommandLine } from "./command_line.ts";
import { counted, formatCount } from "@tare/server/internal/format";
import { inDollars } from "./dollars.ts";
import { STATE_NAMES } from "./ledger_names.ts";
import { printableJson, printableText } from "./terminal/printable_text.ts";
import { short, table } from "./terminal/table.ts";
import { withServer } from "./with_server.ts";

const PARTS: Readonly<Record<keyof CallReport["spent"]["costUnits"], string>> = {
  cacheRead: "cache reads",
  new: "new",
  expired: "expired",
  ownRewrite: "rewrites",
  changed: "changed",
  lost: "dropped",
  output: "output",
  serverSide: "server tools",
  keepAlive: "keep-alive",
};

const WORDS =
  `Cache reads: tokens read from the provider's cache. New: tokens sent for the first time, cache writes included. Expired:
sent again after the cache expired. Rewrites: sent again because Tare rewrote the prompt, summaries included. Changed: sent
again because tools or model changed. Dropped: sent again although the cache should not have expired. Output: replies.
Server tools: the provider's own tools, and model calls inside a call. Keep-alive: requests that kept the cache from expiring during pauses.`;

const UNITS =
  "A cost unit is the price of one input token that is not read from the cache; replies are not included.";

type Cost = Pick<UsageTotals, "usd" | "costUnits" | "calls" | "unpricedCalls">;

function dollarsOf({ usd, unpricedCalls }: Pick<Cost, "usd" | "unpricedCalls">): string {
  return usd === 0 && unpricedCalls > 0 ? "–" : inDollars(usd);
}

/** Returns dollars, or cost units if no call has a price; and the numbers of calls, and of those without a price. */
function inWords({ usd, costUnits, calls, unpricedCalls }: Cost): string {
  const cost = usd === 0 && unpricedCalls > 0
    ? counted(costUnits, "cost unit")
    : `$${inDollars(usd)} (${counted(costUnits, "cost unit")})`;
  const without = unpricedCalls > 0 ? ` (${formatCount(unpricedCalls)} without a price)` : "";
  return `${cost} for ${counted(calls, "call")}${without}`;
}

/** Returns a table of costs by part: in dollars, or in cost units if no call has a price. */
function totalsTable(
  name: string,
  rows: readonly { readonly name: string; readonly totals: UsageTotals }[],
  all: UsageTotals,
): string {
  const isPriced = all.usd > 0 || all.unpricedCalls === 0;
  const unit = isPriced ? "Usd" : "CostUnits";
  const format = isPriced ? inDollars : formatCount;
  const parts = SPENT_ON.filter((part) =>
    (isPriced || part !== "output") && (all.keepAliveRequests > 0 || part !== "keepAlive") &&
    (all[`${part}${unit}`] > 0 || part !== "serverSide")
  );
  return table(
    [name, isPriced ? "dollars" : "cost units", "calls", ...parts.map((part) => PARTS[part]), "no price"],
    rows.map(({ name, totals }) => [
      name,
      format(isPriced ? totals.usd : totals.costUnits),
      formatCount(totals.calls),
      ...parts.map((part) => format(totals[`${part}${unit}`])),
      formatCount(totals.unpricedCalls),
    ]),
  );
}

function spendText(by: string, { all, rows, hasMore, pricesDate }: SpendReport): string {
  const named = rows.map(({ key, session: _, ...totals }) => ({ name: key || "unknown", totals }));
  const titles = rows.flatMap(({ key, session }) =>
    session ? [`${key}  ${[session.title, session.model, session.agent].filter(Boolean).join(", ")}`] : []
  );
  return [
    `${inWords(all)}, at list prices of ${pricesDate} unless set or reported. ` +
    "Days are in UTC.",
    totalsTable(by, named, all),
    ...titles.length > 0
      ? [`${titles.join("\n")}\n\nDetails of a session: deno task spend --session ID`]
      : [],
    ...hasMore ? ["There are more rows."] : [],
    ...all.programs > 0
      ? [programsInWords({
        programs: all.programs,
        calls: all.programCalls,
        failed: all.failedProgramCalls,
        omittedTokens: all.programOmittedTokens,
      })]
      : [],
    `${WORDS}\n${UNITS}`,
  ].join("\n\n");
}

function programsInWords(
  { programs, calls, failed, omittedTokens }: NonNullable<SessionSpend["programs"]>,
): string {
  return `Code mode: ${counted(programs, "program")} made ${counted(calls, "call")} (${
    formatCount(failed)
  } failed) and ` +
    `kept ${
      counted(omittedTokens, "token")
    } of their results out of the prompts. This is not counted as a saving, ` +
    "because the calls without code mode are unknown.";
}

const ROWS = 10;

function sessionSpendText({ all, turns, tools, subjects, results, programs }: SessionSpend): string {
  const carried = (name: string, rows: readonly SessionSpend["tools"][number][]) =>
    table(
      [name, "dollars", "cost units", "results", "tokens"],
      rows.slice(0, ROWS).map(({ key, costUnits, results, tokens, ...cost }) => [
        ...[
          short(key) || "unknown",
          dollarsOf(cost),
          formatCount(costUnits),
          formatCount(results),
          formatCount(tokens),
        ],
      ]),
    );
  const named = turns.slice(0, ROWS).map(({ turn, at: _, ...totals }) => ({
    name: turn === null ? "no turn" : `turn ${turn}`,
    totals,
  }));
  return [
    `${inWords(all)}.`,
    totalsTable("most expensive turns", named, all),
    ...results.length === 0 ? [] : [
      "Estimated carrying cost of tool results, which every later prompt contains:",
      carried("by tool", tools),
      carried("by path or command", subjects),
      table(
        ["most expensive results", "dollars", "cost units", "calls", "tokens", "message", "state"],
        results.map(({ tool, subject, costUnits, calls, tokens, place, state, ...cost }) => [
          short([tool, subject].filter(Boolean).join(" ")) || "unknown",
          ...[
            dollarsOf(cost),
            formatCount(costUnits),
            formatCount(calls),
            formatCount(tokens),
            String(place),
            STATE_NAMES[state],
          ],
        ]),
      ),
      `Evict one: /results in the chat, the page, or POST ${API_PATH}/sessions/ID/pins {"place": MESSAGE, "wish": "evict"}.`,
    ],
    ...programs ? [programsInWords(programs)] : [],
    `${WORDS}\n${UNITS}`,
  ].join("\n\n");
}

await runCommandLine({
  call: "deno task spend",
  summary: "Reports the cost of model calls, by cause",
  usage: ["[--by day] [--from DAY] [--to DAY]", "--session ID"],
  options: {
    by: optionOr("day", "GROUP", `${SPEND_BY.join(", ")}.`),
    session: option("ID", "One session: its most expensive turns, tools, paths, commands and results"),
    ...REPORT_OPTIONS,
  },
  notes: KEY_NOTE,
}, async ({ values: { by: given, from, to, session, json, url } }) => {
  const by = SPEND_BY.find((one) => one === given);
  if (!by) throw new Error(`Cannot group by ${given}. Use one of ${SPEND_BY.join(", ")}.`);
  checkDays({ from, to });
  await withServer(url, async (client) => {
    if (session !== undefined) {
      const spend = await client.sessionSpend(await client.findSession(session));
      console.log(json ? printableJson(spend) : printableText(sessionSpendText(spend)));
    } else {
      const spend = await client.spend({ by, from, to });
      console.log(json ? printableJson(spend) : printableText(spendText(by, spend)));
    }
  });
});
