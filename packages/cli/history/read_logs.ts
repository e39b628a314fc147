import { CLAUDE_CODE } from "./claude_code.ts";
import { CLINE } from "./cline.ts";
import { CODEX } from "./codex.ts";
import { Copies } from "./copies.ts";
import { COPILOT } from "./copilot.ts";
import { GEMINI_CLI } from "./gemini_cli.ts";
import { KIMI } from "./kimi.ts";
import {
  filesIn,
  isReadDenied,
  linkTarget,
  type LogFormat,
  type LoggedCall,
  type LoggedSession,
  type Places,
} from "./log.ts";
import { OPENCLAW } from "./openclaw.ts";
import { KILO, OPENCODE } from "./opencode.ts";
import { PI } from "./pi.ts";
import { QWEN_CODE } from "./qwen_code.ts";
import { addCall, emptyTotals, type HistoryTotals, SpentCalls } from "./spent.ts";

export const LOG_FORMATS: readonly LogFormat[] = [
  CLAUDE_CODE,
  CODEX,
  OPENCODE,
  PI,
  QWEN_CODE,
  COPILOT,
  CLINE,
  KILO,
  OPENCLAW,
  GEMINI_CLI,
  KIMI,
];

/** Agents whose logs contain the totals of sessions only. */
const UNREAD: readonly Pick<LogFormat, "agent" | "find">[] = [{
  agent: "continue",
  *find(places) {
    const folder = places.env("CONTINUE_GLOBAL_DIR") ?? `${places.home}/.continue`;
    yield* filesIn(`${folder}/sessions`, /^(?!sessions\.json$).+\.json$/, places);
  },
}, {
  agent: "goose",
  *find(places) {
    const root = places.env("GOOSE_PATH_ROOT");
    const data = root
      ? `${root}/data`
      : `${places.env("XDG_DATA_HOME") ?? `${places.home}/.local/share`}/goose`;
    yield* filesIn(`${data}/sessions`, /^sessions\.db$|\.jsonl$/, places);
  },
}];

export interface HistoryOptions {
  readonly places: Places;
  readonly agent?: string | undefined;
  readonly project?: string | undefined;
  /** Time of the earliest included call, in milliseconds. Default: any. */
  readonly sinceMs?: number | undefined;
  /** Whether days are in UTC. Default: in the local time zone. */
  readonly utc?: boolean | undefined;
  readonly onRead?: (bytes: number, total: number) => void;
}

export interface HistorySession {
  readonly agent: string;
  readonly id: string;
  readonly project: string;
  readonly model: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly totals: HistoryTotals;
  readonly path: string;
}

const CUTS = ["day", "model", "project", "agent", "dayAndProject"] as const;

export type TotalsBy = Readonly<Record<typeof CUTS[number], ReadonlyMap<string, HistoryTotals>>>;

export interface LoggedHistory {
  readonly all: HistoryTotals;
  readonly by: TotalsBy;
  readonly sessions: readonly HistorySession[];
  readonly files: number;
  readonly lines: number;
  readonly unknownLines: ReadonlyMap<string, number>;
  readonly unreadable: readonly { readonly path: string; readonly why: string }[];
  /** Name of the time zone of days. */
  readonly timeZone: string;
  /** Logs found and not read, with the number of files or sessions. */
  readonly notRead: readonly NotRead[];
}

export interface NotRead {
  readonly agent: string;
  readonly what: string;
  readonly count: number;
}

const TOTALS_ONLY = "logs that contain totals of sessions only";
const WITHOUT_USAGE = "sessions with replies without usage";

/** Time in which the day doesn't change: time zones differ by quarters of an hour. */
const SAME_DAY_MS = 900_000;

/** Returns a function that returns the day of a time, such as 2026-01-31. */
function dayOf(utc: boolean): (ms: number) => string {
  const days = new Map<number, string>();
  return (ms) => {
    const quarter = Math.floor(ms / SAME_DAY_MS);
    const known = days.get(quarter);
    if (known !== undefined) return known;
    const offsetMs = utc ? 0 : 60_000 * new Date(ms).getTimezoneOffset();
    const day = new Date(ms - offsetMs).toISOString().slice(0, 10);
    days.set(quarter, day);
    return day;
  };
}

/** Reads the logs of this machine's agents, one file in memory at a time. */
export function readLogs(
  { places: given, agent: wanted, project, sinceMs = -Infinity, utc = false, onRead }: HistoryOptions,
): LoggedHistory {
  const unreadable: { path: string; why: string }[] = [];
  const fail = (path: string, error: unknown) =>
    unreadable.push({
      path,
      why: isReadDenied(error) ? "permission denied" : error instanceof Error ? error.message : String(error),
    });
  const notRead = new Map<string, NotRead>();
  const leave = (agent: string, what: string, count = 1) => {
    const name = `${agent} ${what}`;
    notRead.set(name, { agent, what, count: count + (notRead.get(name)?.count ?? 0) });
  };
  const places = { ...given, unreadable: fail };
  const isWanted = ({ agent }: { readonly agent: string }) => wanted === undefined || agent === wanted;
  const files = LOG_FORMATS.filter(isWanted)
    .flatMap((format) => filesOf(format, places).map((file) => ({ format, ...file })))
    .filter(({ changedMs }) => changedMs >= sinceMs);
  for (const { agent, find } of UNREAD.filter(isWanted)) {
    const count = [...find(places)].length;
    if (count > 0) leave(agent, TOTALS_ONLY, count);
  }
  const totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const all = emptyTotals();
  const by = {
    ...{ day: new Map(), model: new Map(), project: new Map(), agent: new Map(), dayAndProject: new Map() },
  } satisfies TotalsBy;
  const sessions: HistorySession[] = [];
  const copies = new Map<string, Copies>();
  const unknownLines = new Map<string, number>();
  const day = dayOf(utc);
  let lines = 0;
  const add = (logged: LoggedSession, { agent, path }: { agent: string; path: string }) => {
    const { id, project, calls, lineage } = logged;
    const totals = emptyTotals();
    const models = new Map<string, number>();
    const spent = new SpentCalls();
    const known = copies.get(agent) ?? new Copies();
    copies.set(agent, known);
    const own: LoggedCall[] = [];
    for (const call of calls) {
      const paid = spent.next(call);
      if (known.isCopy(call, lineage) || call.atMs < sinceMs) continue;
      own.push(call);
      models.set(call.model, (models.get(call.model) ?? 0) + 1);
      const on = day(call.atMs);
      const keys = {
        day: on,
        model: call.model,
        project,
        agent,
        dayAndProject: `${on} ${project || "unknown"}`,
      };
      for (const cut of CUTS) addCall(totalsIn(by[cut], keys[cut]), paid);
      addCall(all, paid);
      addCall(totals, paid);
    }
    const [model] = [...models].sort(([, a], [, b]) => b - a)[0] ?? [];
    if (model === undefined) return;
    const times = { startMs: own[0]?.atMs ?? 0, endMs: own.at(-1)?.atMs ?? 0 };
    sessions.push({ agent, id, project, model, ...times, totals, path });
  };
  for (const { format: { agent, read }, path, bytes } of files) {
    const line = (isKnown: boolean) => {
      lines++;
      if (!isKnown) unknownLines.set(agent, (unknownLines.get(agent) ?? 0) + 1);
    };
    const newer = (what: string) => leave(agent, `${what}, newer than what is read`);
    try {
      for (const session of read(path, { messages: false, line, newer })) {
        if (project !== undefined && !session.project.includes(project)) continue;
        if (session.calls.length === 0) leave(agent, WITHOUT_USAGE);
        else add(session, { agent, path });
      }
    } catch (error) {
      fail(path, error);
    }
    onRead?.(bytes, totalBytes);
  }
  sessions.sort((a, b) => b.totals.usd - a.totals.usd || b.totals.promptTokens - a.totals.promptTokens);
  const timeZone = utc ? "UTC" : new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const found = { files: files.length, lines, unknownLines, unreadable, notRead: [...notRead.values()] };
  return { all, by, sessions, timeZone, ...found };
}

interface LogFile {
  readonly path: string;
  readonly bytes: number;
  readonly changedMs: number;
}

function filesOf(format: LogFormat, places: Places): LogFile[] {
  const seen = new Set<string>();
  return [...format.find(places)].flatMap((path) => {
    const real = linkTarget(path);
    if (seen.has(real)) return [];
    seen.add(real);
    try {
      const { size, mtime } = Deno.statSync(path);
      // The newest content of a database is in its write-ahead log.
      const isDatabase = /\.(?:db|sqlite)$/.test(path);
      return [{ path, bytes: size, changedMs: isDatabase ? Infinity : mtime?.getTime() ?? Infinity }];
    } catch (error) {
      places.unreadable?.(path, error);
      return [];
    }
  });
}

function totalsIn(map: Map<string, HistoryTotals>, key: string): HistoryTotals {
  const totals = map.get(key) ?? emptyTotals();
  map.set(key, totals);
  return totals;
}

/** Reads a session with its messages. Returns undefined if it no longer exists. */
export function readWhole({ agent, id, path }: HistorySession): LoggedSession | undefined {
  const format = LOG_FORMATS.find((format) => format.agent === agent);
  for (const session of format?.read(path, { messages: true, line: () => {}, only: id }) ?? []) {
    if (session.id === id) return session;
  }
  return undefined;
}
