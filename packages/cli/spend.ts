/**
 * Says where the money went: `deno task spend`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { type CallReport, SPEND_BY, SPENT_ON, type Sums } from "@tare/session/internal/report";
import { API_PATH, type SessionSpend, type SpendReport } from "../server/client.ts";
import { connect } from "./agent_client.ts";
import { checkDays, KEY_NOTE, option, optionOr, REPORT_OPTIONS, runCommandLine } from "./command_line.ts";
import { counted, formatCount } from "@tare/server/internal/format";
import { inDollars } from "./dollars.ts";
import { shownJson, shownText } from "./terminal/shown_text.ts";
import { short, table } from "./terminal/table.ts";

const PARTS: Readonly<Record<keyof CallReport["spent"]["tokenUnits"], string>> = {
  cacheRead: "cache reads",
  new: "new",
  expired: "expired",
  ownRewrite: "own rewrites",
  changed: "changed",
  lost: "lost",
  output: "output",
  ping: "keeping warm",
};

const WORDS =
  `Cache reads: what the provider's cache served. New: what no request held before, cache writes included. Expired: sent
again because the cache's time was over. Own rewrites: sent again because Tare rewrote the prompt, summaries included.
Changed: sent again because tools or model changed. Lost: sent again though the cache's time wasn't over. Output: replies.
Keeping warm: requests that kept the cache from expiring while nothing was asked.`;

const UNITS =
  "A token unit is the price of one input token that isn't in the cache; replies aren't among them.";

type Cost = Pick<Sums, "usd" | "tokenUnits" | "unpricedCalls">;

/** Returns dollars for a table: an unknown price isn't 0. */
function dollarsOf({ usd, unpricedCalls }: Pick<Cost, "usd" | "unpricedCalls">): string {
  return usd === 0 && unpricedCalls > 0 ? "–" : inDollars(usd);
}

/** Returns a cost as text: dollars as far as prices are known, and the number of calls without one. */
function inWords({ usd, tokenUnits, unpricedCalls }: Cost): string {
  const without = unpricedCalls > 0 ? `; ${counted(unpricedCalls, "call")} without a price` : "";
  // An unknown price isn't 0.
  const cost = usd === 0 && unpricedCalls > 0
    ? counted(tokenUnits, "token unit")
    : `$${inDollars(usd)} (${counted(tokenUnits, "token unit")})`;
  return cost + without;
}

/** Returns a table of costs by part: in dollars, or in token units if no call has a price. */
function tableOfSums(
  name: string,
  rows: readonly { readonly name: string; readonly sums: Sums }[],
  all: Sums,
): string {
  const isPriced = all.usd > 0 || all.unpricedCalls === 0;
  const unit = isPriced ? "Usd" : "TokenUnits";
  const format = isPriced ? inDollars : formatCount;
  const parts = SPENT_ON.filter((part) =>
    (isPriced || part !== "output") && (all.pings > 0 || part !== "ping")
  );
  return table(
    [name, isPriced ? "dollars" : "token units", "calls", ...parts.map((part) => PARTS[part]), "no price"],
    rows.map(({ name, sums }) => [
      name,
      format(isPriced ? sums.usd : sums.tokenUnits),
      formatCount(sums.calls),
      ...parts.map((part) => format(sums[`${part}${unit}`])),
      formatCount(sums.unpricedCalls),
    ]),
  );
}

function told(by: string, { all, rows, hasMore }: SpendReport): string {
  const named = rows.map(({ key, session: _, ...sums }) => ({ name: key || "not known", sums }));
  const titles = rows.flatMap(({ key, session }) =>
    session ? [`${key}  ${[session.title, session.model, session.agent].filter(Boolean).join(", ")}`] : []
  );
  return [
    `${inWords(all)} for ${counted(all.calls, "call")}. Days are those of UTC.`,
    tableOfSums(by, named, all),
    ...titles.length > 0 ? [`${titles.join("\n")}\n\nMore of one of them: deno task spend --session ID`] : [],
    ...hasMore ? ["There are more rows than these."] : [],
    ...all.programs > 0
      ? [programsInWords({
        programs: all.programs,
        calls: all.programCalls,
        failed: all.failedProgramCalls,
        keptTokens: all.programKeptTokens,
      })]
      : [],
    `${WORDS}\n${UNITS}`,
  ].join("\n\n");
}

function programsInWords(
  { programs, calls, failed, keptTokens }: NonNullable<SessionSpend["programs"]>,
): string {
  return `${counted(programs, "program")} made ${counted(calls, "call")}, of which ${
    formatCount(failed)
  } failed, ` +
    `and kept ${
      counted(keptTokens, "token")
    } of what these returned outside of every prompt. That is no saving: ` +
    "nobody knows what would have been called instead.";
}

/** Rows of each table about a session. */
const ROWS = 10;

function toldOfSession({ all, turns, tools, subjects, results, programs }: SessionSpend): string {
  const carried = (name: string, rows: readonly SessionSpend["tools"][number][]) =>
    table(
      [name, "dollars", "token units", "results", "tokens"],
      rows.slice(0, ROWS).map(({ key, tokenUnits, results, tokens, ...cost }) => [
        ...[
          short(key) || "not known",
          dollarsOf(cost),
          formatCount(tokenUnits),
          formatCount(results),
          formatCount(tokens),
        ],
      ]),
    );
  const named = turns.slice(0, ROWS).map(({ turn, at: _, ...sums }) => ({
    name: turn === null ? "no turn" : `turn ${turn}`,
    sums,
  }));
  return [
    `${inWords(all)} for ${counted(all.calls, "call")}.`,
    tableOfSums("dearest turns", named, all),
    ...results.length === 0 ? [] : [
      "What results cost by being carried in each prompt, about:",
      carried("by tool", tools),
      carried("by path or command", subjects),
      table(
        ["dearest results", "dollars", "token units", "calls", "tokens", "message", "now"],
        results.map(({ tool, subject, tokenUnits, calls, tokens, place, state, ...cost }) => [
          short([tool, subject].filter(Boolean).join(" ")) || "not known",
          ...[
            dollarsOf(cost),
            formatCount(tokenUnits),
            formatCount(calls),
            formatCount(tokens),
            String(place),
            state,
          ],
        ]),
      ),
      `Let one go: POST ${API_PATH}/sessions/ID/pins {"place": MESSAGE, "wish": "let_go"}, or on the page.`,
    ],
    ...programs ? [programsInWords(programs)] : [],
    `${WORDS}\n${UNITS}`,
  ].join("\n\n");
}

await runCommandLine({
  call: "deno task spend",
  summary: "Says what model calls have cost, and what for",
  usage: ["[--by day] [--from DAY] [--to DAY]", "--session ID"],
  options: {
    by: optionOr("day", "WHAT", `${SPEND_BY.join(", ")}.`),
    session: option("ID", "One session: its dearest turns, tools, paths and commands, and results"),
    ...REPORT_OPTIONS,
  },
  notes: KEY_NOTE,
}, async ({ values: { by: given, from, to, session, json, url } }) => {
  const by = SPEND_BY.find((one) => one === given);
  if (!by) throw new Error(`Cannot cut by ${given}: there are ${SPEND_BY.join(", ")}.`);
  checkDays({ from, to });
  const { client } = await connect(url);
  if (session !== undefined) {
    const spend = await client.sessionSpend(session);
    console.log(json ? shownJson(spend) : shownText(toldOfSession(spend)));
  } else {
    const spend = await client.spend({ by, from, to });
    console.log(json ? shownJson(spend) : shownText(told(by, spend)));
  }
});
