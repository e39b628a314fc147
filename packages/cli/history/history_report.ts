import { MODELS_DATE } from "@tare/planner/internal";
import { counted, formatCount } from "@tare/server/internal/format";
import { inDollars } from "../dollars.ts";
import { short, table } from "../terminal/table.ts";
import type { LoggedHistory } from "./read_logs.ts";
import { type PlayedHistory, type ReplayedSession, sumSaved } from "./replay_history.ts";
import { type HistoryTotals, PAID_FOR, type PaidFor } from "./spent.ts";

export const PART_NAMES: Readonly<Record<PaidFor, string>> = {
  cacheRead: "cache reads",
  new: "new",
  expired: "expired",
  broken: "broken",
  output: "output",
  serverSide: "server tools",
};

const PART_WORDS =
  `Cache reads: tokens read from the provider's cache. New: tokens sent for the first time, cache writes included. Expired:
sent again after a pause in which the cache expired. Broken: sent again although it had not expired, because an earlier part
of the prompt or the model changed, or the provider dropped the entry. Output: replies. Server tools: the provider's own tools,
and model calls inside a call.`;

const REPLAY_WORDS =
  `Keep-alive: requests that keep the cache from expiring in pauses; prompts are unchanged. Pruning: old results and calls
are evicted from prompts and can be read back. Refetch ×1, ×3: the saving if the model fetches back everything that it needs
once or three times. Both: keep-alive and pruning with refetch ×1; the two overlap, so it is less than their sum. Refetches:
results fetched back. Lost: edits whose old text no prompt contained any more. Baseline: how the agent was simulated without
Tare.`;

/** A part of the report: a text, or a table. */
export type Section = string | {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly title?: string;
  /** Whether the last rows are the most important. Default: false. */
  readonly isAscending?: boolean;
};

export interface TotalsRow {
  readonly key: string;
  readonly totals: HistoryTotals;
}

/** Returns all groups: days in order, others by cost, most expensive first. */
export function rowsBy(history: LoggedHistory, by: keyof LoggedHistory["by"]): TotalsRow[] {
  const rows = [...history.by[by]].map(([key, totals]) => ({ key: key || "unknown", totals }));
  return by.startsWith("day")
    ? rows.sort((a, b) => a.key < b.key ? -1 : 1)
    : rows.sort((a, b) => b.totals.usd - a.totals.usd || b.totals.promptTokens - a.totals.promptTokens);
}

export function historyReport(history: LoggedHistory, played: PlayedHistory): readonly Section[] {
  return [
    headline(history),
    ...(["agent", "model", "project", "day", "dayAndProject"] as const).map((by) => totalsTable(history, by)),
    PART_WORDS,
    ...replayReport(history, played),
    ...faults(history),
  ];
}

const ROWS = 12;

/** Returns a report for a terminal, with the most important rows of each table. */
export function reportText(sections: readonly Section[]): string {
  return sections.map((section) => {
    if (typeof section === "string") return section;
    const { heads, rows, title, isAscending } = section;
    const visible = isAscending ? rows.slice(-ROWS) : rows.slice(0, ROWS);
    return [
      ...(title === undefined ? [] : [title]),
      table(heads, visible.map(([name = "", ...cells]) => [short(name), ...cells])),
      ...(rows.length > ROWS ? [`${formatCount(rows.length - ROWS)} more: --json, --html.`] : []),
    ].join("\n");
  }).join("\n\n");
}

function headline({ all, sessions, by, timeZone }: LoggedHistory): string {
  const days = [...by.day.keys()].sort();
  const unpriced = all.unpricedCalls > 0
    ? ` Not included: ${counted(all.unpricedCalls, "call")} without a known price.`
    : "";
  return `$${inDollars(all.usd)} for ${counted(all.calls, "call")} in ${
    counted(sessions.length, "session")
  }, ${days[0]} to ${days.at(-1)}, at list prices of ${MODELS_DATE} unless reported.${unpriced} ` +
    `The price of a subscription doesn't depend on usage. Time zone of days: ${timeZone}.`;
}

function totalsTable(history: LoggedHistory, by: keyof LoggedHistory["by"]): Section {
  const parts = PAID_FOR.filter((part) => part !== "serverSide" || history.all.usdFor[part] > 0);
  return {
    heads: [
      by === "dayAndProject" ? "day and project" : by,
      "dollars",
      "calls",
      ...parts.map((part) => PART_NAMES[part]),
      "prompt tokens",
      "no price",
    ],
    rows: rowsBy(history, by).map(({ key, totals }) => [
      ...[key, inDollars(totals.usd), formatCount(totals.calls)],
      ...parts.map((part) => inDollars(totals.usdFor[part])),
      ...[formatCount(totals.promptTokens), formatCount(totals.unpricedCalls)],
    ]),
    isAscending: by.startsWith("day"),
  };
}

function replayReport(history: LoggedHistory, { played, leftOut, waiting }: PlayedHistory): Section[] {
  if (played.length === 0 && waiting === 0 && leftOut.size === 0) return [];
  const usd = played.reduce((sum, { session }) => sum + session.totals.usd, 0);
  const { pruned, warm, warmRefused, both } = sumSaved(played);
  const [edits = 0, lost = 0] = (["edits", "lostEdits"] as const).map((name) =>
    played.reduce((sum, { replay }) => sum + replay[name], 0)
  );
  const share = (saved: number) => `${signed(saved)}${usd > 0 ? ` (${percent(saved / usd)})` : ""}`;
  const losing = played.filter(({ shares: { pruned, warm } }) => pruned.k1 < 0 || warm < 0);
  return [
    `Estimated saving for ${counted(played.length, "session")}, most expensive first: $${
      inDollars(usd)
    } of $${inDollars(history.all.usd)}. Replayed with their own times and usage on a simulated cache:
  by cache keep-alive: ${share(warm)}; if the provider refuses a time to live of one hour: ${
      share(warmRefused)
    }
  by pruning: ${share(pruned.k0)}; with refetches paid once: ${share(pruned.k1)}, three times: ${
      share(pruned.k3)
    }
  by both: ${share(both.k0)}; with refetches paid once: ${share(both.k1)}, three times: ${share(both.k3)}
  ${formatCount(lost)} of ${counted(edits, "edit")} would have lost text; ${
      counted(losing.length, "session")
    } would have cost more.`,
    playedTable(played),
    ...losing.length > 0 ? [playedTable(losing, "Sessions that would have cost more:")] : [],
    ...waiting > 0
      ? [
        `${counted(waiting, "session")} not replayed: increase --seconds, or use --seconds all.`,
      ]
      : [],
    ...[...leftOut].map(([why, sessions]) => `${counted(sessions, "session")} not replayed: ${why}.`),
    REPLAY_WORDS,
  ];
}

const PLAYED_HEADS = [
  ...["session", "dollars", "calls", "keep-alive", "pruning", "refetch ×1", "refetch ×3", "both"],
  ...["refetches", "edits", "lost", "baseline"],
];

function playedTable(played: readonly ReplayedSession[], title?: string): Section {
  const rows = played.map(({ session: { startMs, agent, project, totals }, replay, shares, saved }) => [
    `${new Date(startMs).toISOString().slice(0, 16).replace("T", " ")} ${agent} ${
      project.slice(project.lastIndexOf("/") + 1)
    }`,
    ...[inDollars(totals.usd), formatCount(totals.calls)],
    ...[shares.warm, shares.pruned.k0, shares.pruned.k1, shares.pruned.k3, shares.both.k1].map((share) =>
      saved ? signed(share * totals.usd) : percent(share)
    ),
    ...[
      formatCount(replay.refetches),
      formatCount(replay.edits),
      formatCount(replay.lostEdits),
      replay.baseline,
    ],
  ]);
  return { heads: PLAYED_HEADS, rows, ...(title !== undefined && { title }) };
}

function faults({ unknownLines, unreadable, notRead, files, lines }: LoggedHistory): string[] {
  const unknown = [...unknownLines].map(([agent, lines]) => `${counted(lines, "line")} of ${agent}`);
  return [
    `Read ${counted(lines, "line")} in ${counted(files, "file")}.${
      unknown.length > 0 ? ` Skipped, in an unknown format: ${unknown.join(", ")}.` : ""
    }`,
    ...notReadText(notRead),
    ...unreadable.map(({ path, why }) => `Cannot read ${path}: ${why}`),
  ];
}

/** Returns what was found and is in no total. */
export function notReadText(notRead: LoggedHistory["notRead"]): string[] {
  return notRead.map(({ agent, what, count }) =>
    `Found, not read: ${agent}, ${what} (${formatCount(count)}).`
  );
}

function signed(usd: number): string {
  return `${usd < 0 ? "-" : ""}$${inDollars(Math.abs(usd))}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

export function historyJson(history: LoggedHistory, { played, leftOut, waiting }: PlayedHistory) {
  const { all, sessions, timeZone, files, lines, unknownLines, unreadable, notRead } = history;
  const byId = new Map(played.map((one) => [one.session, one]));
  const rows = (by: keyof LoggedHistory["by"]) =>
    rowsBy(history, by).map(({ key, totals }) => ({ key, ...totals }));
  return {
    prices: MODELS_DATE,
    timeZone,
    all,
    byDay: rows("day"),
    byModel: rows("model"),
    byProject: rows("project"),
    byAgent: rows("agent"),
    byDayAndProject: rows("dayAndProject"),
    sessions: sessions.map((session) => {
      const { startMs, endMs, totals, ...names } = session;
      const { replay, shares, saved } = byId.get(session) ?? {};
      const times = { start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString() };
      return { ...names, ...times, ...totals, ...(replay && { replay, shares, saved }) };
    }),
    played: {
      sessions: played.length,
      usd: played.reduce((sum, { session }) => sum + session.totals.usd, 0),
      saved: sumSaved(played),
      waiting,
      leftOut: Object.fromEntries(leftOut),
    },
    read: { files, lines, unknownLines: Object.fromEntries(unknownLines), unreadable, notRead },
  };
}
