import { MODELS_DATE } from "@tare/planner";
import type { LoggedHistory } from "./read_logs.ts";
import { type PlayedHistory, sumSaved } from "./replay_history.ts";
import { rowsBy } from "./told.ts";

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
