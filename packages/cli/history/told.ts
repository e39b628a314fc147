import { MODELS_DATE } from "@tare/planner/internal";
import { inDigits, inDigitsOf, inDollars } from "../in_digits.ts";
import { short, table } from "../terminal/table.ts";
import type { HistorySession, LoggedHistory } from "./read_logs.ts";
import { type PlayedHistory, type ReplayedSession, sumSaved } from "./replay_history.ts";
import { type HistorySums, PAID_FOR, type PaidFor } from "./spent.ts";

/** What each part is called. */
export const PART_NAMES: Readonly<Record<PaidFor, string>> = {
  cacheRead: "cache reads",
  new: "new",
  expired: "expired",
  broken: "broken",
  output: "output",
};

/** What the parts mean. */
export const PART_WORDS =
  `Cache reads: what the provider's cache served. New: what no prompt held before, cache writes included. Expired: sent
again after a pause in which the cache's time was over. Broken: sent again though it wasn't over: something in front had
changed, the model was another one, or the provider lost it. Output: replies.`;

/** Rows of a table, the dearest or the newest. */
const ROWS = 12;

/** A row of sums, by what they are cut by. */
export interface SumsRow {
  readonly key: string;
  readonly sums: HistorySums;
}

/** All rows of a cut: days in their order, the newest last; others the dearest first. */
export function rowsBy(history: LoggedHistory, by: keyof LoggedHistory["by"]): SumsRow[] {
  const rows = [...history.by[by]].map(([key, sums]) => ({ key: key || "not known", sums }));
  return by === "day"
    ? rows.sort((a, b) => a.key < b.key ? -1 : 1)
    : rows.sort((a, b) => b.sums.usd - a.sums.usd || b.sums.promptTokens - a.sums.promptTokens);
}

/** Dollars, with a sign in front if they are less than none. */
export function signed(usd: number): string {
  return usd < 0 ? `-$${inDollars(-usd)}` : `$${inDollars(usd)}`;
}

/** A share of something. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** What everything cost, in a sentence or two. */
export function headline({ all, sessions, by }: LoggedHistory): string {
  const days = [...by.day.keys()].sort();
  const without = all.unpricedCalls > 0 ? ` ${inDigitsOf(all.unpricedCalls, "call")} without a price.` : "";
  return `$${inDollars(all.usd)} for ${inDigitsOf(all.calls, "call")} in ${
    inDigitsOf(sessions.length, "session")
  }, ${days[0]} to ${days.at(-1)}, at list prices of ${MODELS_DATE}.${without}`;
}

function tableBy(history: LoggedHistory, by: keyof LoggedHistory["by"]): string {
  const rows = rowsBy(history, by);
  const shown = by === "day" ? rows.slice(-ROWS) : rows.slice(0, ROWS);
  const more = rows.length > ROWS ? `\n${inDigits(rows.length - ROWS)} more: --json, --html.` : "";
  return table(
    [by, "dollars", "calls", ...PAID_FOR.map((part) => PART_NAMES[part]), "prompt tokens", "no price"],
    shown.map(({ key, sums }) => [
      short(key),
      inDollars(sums.usd),
      inDigits(sums.calls),
      ...PAID_FOR.map((part) => inDollars(sums.usdFor[part])),
      inDigits(sums.promptTokens),
      inDigits(sums.unpricedCalls),
    ]),
  ) + more;
}

/** What a session is called: its day, agent, and folder. */
export function sessionName({ startMs, agent, project }: HistorySession): string {
  const folder = project.slice(project.lastIndexOf("/") + 1);
  return `${new Date(startMs).toISOString().slice(0, 16).replace("T", " ")} ${agent} ${folder}`;
}

/** Whether a session would have cost more than it did, by either. */
export function loses({ shares: { pruned, warm } }: ReplayedSession): boolean {
  return pruned.k1 < 0 || warm < 0;
}

function tableOf(played: readonly ReplayedSession[]): string {
  return table(
    [
      "session",
      "dollars",
      "calls",
      "warmth",
      "pruning",
      "κ = 1",
      "κ = 3",
      "both",
      "repairs",
      "edits",
      "lost",
      "against",
    ],
    played.map(({ session, replay, shares, saved }) => [
      short(sessionName(session)),
      ...[inDollars(session.sums.usd), inDigits(session.sums.calls)],
      ...[shares.warm, shares.pruned.k0, shares.pruned.k1, shares.pruned.k3, shares.both.k1].map((share) =>
        saved ? signed(share * session.sums.usd) : percent(share)
      ),
      ...[inDigits(replay.repairs), inDigits(replay.edits), inDigits(replay.lostEdits), replay.without],
    ]),
  );
}

/** What the engine's figures mean. */
export const REPLAY_WORDS =
  `Saved by warmth: requests that keep the cache from expiring in pauses; nothing is left out of a prompt. By pruning: results
and old calls leave prompts, and can be read back; κ says how often the model pays for fetching back what it turns out to
need. Lost: of the edits, those whose old text no prompt showed any more. Against: what the agent would have sent without
Tare. Both: kept warm and pruned, repairs paid; the two overlap, so that it is less than their sum.`;

function toldOfReplay(history: LoggedHistory, { played, leftOut, waiting }: PlayedHistory): string[] {
  if (played.length === 0 && waiting === 0 && leftOut.size === 0) return [];
  const usd = played.reduce((sum, { session }) => sum + session.sums.usd, 0);
  const { pruned, warm, warmRefused, both } = sumSaved(played);
  const [edits, lost] = (["edits", "lostEdits"] as const).map((name) =>
    played.reduce((sum, { replay }) => sum + replay[name], 0)
  ) as [number, number];
  const share = (saved: number) => `${signed(saved)}${usd > 0 ? ` (${percent(saved / usd)})` : ""}`;
  const losing = played.filter(loses);
  return [
    `What Tare would have made of ${inDigitsOf(played.length, "session")}, the dearest first: $${
      inDollars(usd)
    } of $${inDollars(history.all.usd)}. Played again with their own times and usage, on a simulated cache:
  saved by warmth, which loses nothing: ${share(warm)}; where the provider refuses the hour: ${
      share(warmRefused)
    }
  saved by pruning: ${share(pruned.k0)}; repairs paid: ${share(pruned.k1)}, paid three times: ${
      share(pruned.k3)
    }
  by both together: ${share(both.k0)}; repairs paid: ${share(both.k1)}, paid three times: ${share(both.k3)}
  ${inDigits(lost)} of ${inDigitsOf(edits, "edit")} would have lost text; ${
      inDigitsOf(losing.length, "session")
    } would have cost more.`,
    tableOf(played.slice(0, ROWS)),
    ...losing.length > 0 ? [`Those that would have cost more:\n${tableOf(losing.slice(0, ROWS))}`] : [],
    ...waiting > 0
      ? [
        `${
          inDigitsOf(waiting, "session")
        } weren't played: --seconds gives them time, --seconds all as much as it takes.`,
      ]
      : [],
    ...[...leftOut].map(([why, sessions]) => `${inDigitsOf(sessions, "session")} not played: ${why}.`),
    REPLAY_WORDS,
  ];
}

/** What couldn't be read. */
export function toldOfFaults({ unknownLines, unreadable, files, lines }: LoggedHistory): string[] {
  const unknown = [...unknownLines].map(([agent, lines]) => `${inDigitsOf(lines, "line")} of ${agent}`);
  return [
    `Read ${inDigitsOf(lines, "line")} in ${inDigitsOf(files, "file")}.${
      unknown.length > 0 ? ` Skipped, of a shape that isn't known: ${unknown.join(", ")}.` : ""
    }`,
    ...unreadable.map(({ path, why }) => `Cannot read ${path}: ${why}`),
  ];
}

/** A history as a terminal shows it. */
export function toldHistory(history: LoggedHistory, played: PlayedHistory): string {
  return [
    `${headline(history)} A subscription costs what it costs, whatever was sent. Days are those of UTC.`,
    ...(["agent", "model", "project", "day"] as const).map((by) => tableBy(history, by)),
    PART_WORDS,
    ...toldOfReplay(history, played),
    ...toldOfFaults(history),
  ].join("\n\n");
}

/** A history as `--json` prints it. */
export function historyJson(history: LoggedHistory, { played, leftOut, waiting }: PlayedHistory) {
  const { all, sessions, files, lines, unknownLines, unreadable } = history;
  const byId = new Map(played.map((one) => [one.session, one]));
  const rows = (by: keyof LoggedHistory["by"]) =>
    rowsBy(history, by).map(({ key, sums }) => ({ key, ...sums }));
  return {
    prices: MODELS_DATE,
    all,
    byDay: rows("day"),
    byModel: rows("model"),
    byProject: rows("project"),
    byAgent: rows("agent"),
    sessions: sessions.map((session) => {
      const { startMs, endMs, sums, ...names } = session;
      const { replay, shares, saved } = byId.get(session) ?? {};
      const times = { start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString() };
      return { ...names, ...times, ...sums, ...(replay && { replay, shares, saved }) };
    }),
    played: {
      sessions: played.length,
      usd: played.reduce((sum, { session }) => sum + session.sums.usd, 0),
      saved: sumSaved(played),
      waiting,
      leftOut: Object.fromEntries(leftOut),
    },
    read: { files, lines, unknownLines: Object.fromEntries(unknownLines), unreadable },
  };
}
