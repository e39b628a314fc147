import { MODELS_DATE } from "@tare/planner/internal";
import { counted, formatCount } from "@tare/server/internal/format";
import { inDollars } from "../dollars.ts";
import { short, table } from "../terminal/table.ts";
import type { LoggedHistory } from "./read_logs.ts";
import { type PlayedHistory, type ReplayedSession, sumSaved } from "./replay_history.ts";
import { type HistorySums, PAID_FOR, type PaidFor } from "./spent.ts";

export const PART_NAMES: Readonly<Record<PaidFor, string>> = {
  cacheRead: "cache reads",
  new: "new",
  expired: "expired",
  broken: "broken",
  output: "output",
};

const PART_WORDS =
  `Cache reads: what the provider's cache served. New: what no prompt held before, cache writes included. Expired: sent
again after a pause in which the cache's time was over. Broken: sent again though it wasn't over: something in front had
changed, the model was another one, or the provider lost it. Output: replies.`;

const REPLAY_WORDS =
  `Saved by warmth: requests that keep the cache from expiring in pauses; nothing is left out of a prompt. By pruning: results
and old calls leave prompts, and can be read back; κ says how often the model pays for fetching back what it turns out to
need. Lost: of the edits, those whose old text no prompt showed any more. Against: what the agent would have sent without
Tare. Both: kept warm and pruned, repairs paid; the two overlap, so that it is less than their sum.`;

/** A part of the report: a text, or a table. */
export type Section = string | {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly title?: string;
  /** Whether the last rows matter most. Default: the first. */
  readonly isAscending?: boolean;
};

export interface SumsRow {
  readonly key: string;
  readonly sums: HistorySums;
}

/** Returns all groups: days in order, others the most expensive first. */
export function rowsBy(history: LoggedHistory, by: keyof LoggedHistory["by"]): SumsRow[] {
  const rows = [...history.by[by]].map(([key, sums]) => ({ key: key || "not known", sums }));
  return by === "day"
    ? rows.sort((a, b) => a.key < b.key ? -1 : 1)
    : rows.sort((a, b) => b.sums.usd - a.sums.usd || b.sums.promptTokens - a.sums.promptTokens);
}

export function historyReport(history: LoggedHistory, played: PlayedHistory): readonly Section[] {
  return [
    headline(history),
    ...(["agent", "model", "project", "day"] as const).map((by) => sumsTable(history, by)),
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
    const shown = isAscending ? rows.slice(-ROWS) : rows.slice(0, ROWS);
    return [
      ...(title === undefined ? [] : [title]),
      table(heads, shown.map(([name = "", ...cells]) => [short(name), ...cells])),
      ...(rows.length > ROWS ? [`${formatCount(rows.length - ROWS)} more: --json, --html.`] : []),
    ].join("\n");
  }).join("\n\n");
}

function headline({ all, sessions, by }: LoggedHistory): string {
  const days = [...by.day.keys()].sort();
  const unpriced = all.unpricedCalls > 0 ? ` ${counted(all.unpricedCalls, "call")} without a price.` : "";
  return `$${inDollars(all.usd)} for ${counted(all.calls, "call")} in ${
    counted(sessions.length, "session")
  }, ${days[0]} to ${days.at(-1)}, at list prices of ${MODELS_DATE}.${unpriced} ` +
    "A subscription costs what it costs, whatever was sent. Days are those of UTC.";
}

function sumsTable(history: LoggedHistory, by: keyof LoggedHistory["by"]): Section {
  return {
    heads: [by, "dollars", "calls", ...PAID_FOR.map((part) => PART_NAMES[part]), "prompt tokens", "no price"],
    rows: rowsBy(history, by).map(({ key, sums }) => [
      ...[key, inDollars(sums.usd), formatCount(sums.calls)],
      ...PAID_FOR.map((part) => inDollars(sums.usdFor[part])),
      ...[formatCount(sums.promptTokens), formatCount(sums.unpricedCalls)],
    ]),
    isAscending: by === "day",
  };
}

function replayReport(history: LoggedHistory, { played, leftOut, waiting }: PlayedHistory): Section[] {
  if (played.length === 0 && waiting === 0 && leftOut.size === 0) return [];
  const usd = played.reduce((sum, { session }) => sum + session.sums.usd, 0);
  const { pruned, warm, warmRefused, both } = sumSaved(played);
  const [edits = 0, lost = 0] = (["edits", "lostEdits"] as const).map((name) =>
    played.reduce((sum, { replay }) => sum + replay[name], 0)
  );
  const share = (saved: number) => `${signed(saved)}${usd > 0 ? ` (${percent(saved / usd)})` : ""}`;
  const losing = played.filter(({ shares: { pruned, warm } }) => pruned.k1 < 0 || warm < 0);
  return [
    `What Tare would have made of ${counted(played.length, "session")}, the dearest first: $${
      inDollars(usd)
    } of $${inDollars(history.all.usd)}. Played again with their own times and usage, on a simulated cache:
  saved by warmth, which loses nothing: ${share(warm)}; where the provider refuses the hour: ${
      share(warmRefused)
    }
  saved by pruning: ${share(pruned.k0)}; repairs paid: ${share(pruned.k1)}, paid three times: ${
      share(pruned.k3)
    }
  by both together: ${share(both.k0)}; repairs paid: ${share(both.k1)}, paid three times: ${share(both.k3)}
  ${formatCount(lost)} of ${counted(edits, "edit")} would have lost text; ${
      counted(losing.length, "session")
    } would have cost more.`,
    playedTable(played),
    ...losing.length > 0 ? [playedTable(losing, "Those that would have cost more:")] : [],
    ...waiting > 0
      ? [
        `${
          counted(waiting, "session")
        } weren't played: --seconds gives them time, --seconds all as much as it takes.`,
      ]
      : [],
    ...[...leftOut].map(([why, sessions]) => `${counted(sessions, "session")} not played: ${why}.`),
    REPLAY_WORDS,
  ];
}

const PLAYED_HEADS = [
  ...["session", "dollars", "calls", "warmth", "pruning", "κ = 1", "κ = 3", "both"],
  ...["repairs", "edits", "lost", "against"],
];

function playedTable(played: readonly ReplayedSession[], title?: string): Section {
  const rows = played.map(({ session: { startMs, agent, project, sums }, replay, shares, saved }) => [
    `${new Date(startMs).toISOString().slice(0, 16).replace("T", " ")} ${agent} ${
      project.slice(project.lastIndexOf("/") + 1)
    }`,
    ...[inDollars(sums.usd), formatCount(sums.calls)],
    ...[shares.warm, shares.pruned.k0, shares.pruned.k1, shares.pruned.k3, shares.both.k1].map((share) =>
      saved ? signed(share * sums.usd) : percent(share)
    ),
    ...[
      formatCount(replay.repairs),
      formatCount(replay.edits),
      formatCount(replay.lostEdits),
      replay.without,
    ],
  ]);
  return { heads: PLAYED_HEADS, rows, ...(title !== undefined && { title }) };
}

function faults({ unknownLines, unreadable, files, lines }: LoggedHistory): string[] {
  const unknown = [...unknownLines].map(([agent, lines]) => `${counted(lines, "line")} of ${agent}`);
  return [
    `Read ${counted(lines, "line")} in ${counted(files, "file")}.${
      unknown.length > 0 ? ` Skipped, of a shape that isn't known: ${unknown.join(", ")}.` : ""
    }`,
    ...unreadable.map(({ path, why }) => `Cannot read ${path}: ${why}`),
  ];
}

/** Returns dollars with a minus sign in front if they are negative. */
function signed(usd: number): string {
  return `${usd < 0 ? "-" : ""}$${inDollars(Math.abs(usd))}`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

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
