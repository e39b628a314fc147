import { CLAUDE_CODE } from "./claude_code.ts";
import { CLINE } from "./cline.ts";
import { CODEX } from "./codex.ts";
import { COPILOT } from "./copilot.ts";
import type { LogFormat, LoggedSession, Places } from "./log.ts";
import { OPENCODE } from "./opencode.ts";
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
];

export interface HistoryOptions {
  readonly places: Places;
  readonly agent?: string | undefined;
  readonly project?: string | undefined;
  /** Time of the earliest included call, in milliseconds. Default: any. */
  readonly sinceMs?: number | undefined;
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

const CUTS = ["day", "model", "project", "agent"] as const;

export type TotalsBy = Readonly<Record<typeof CUTS[number], ReadonlyMap<string, HistoryTotals>>>;

export interface LoggedHistory {
  readonly all: HistoryTotals;
  readonly by: TotalsBy;
  readonly sessions: readonly HistorySession[];
  readonly files: number;
  readonly lines: number;
  readonly unknownLines: ReadonlyMap<string, number>;
  readonly unreadable: readonly { readonly path: string; readonly why: string }[];
}

/** Reads the logs of this machine's agents, one file in memory at a time. */
export function readLogs(
  { places, agent: wanted, project, sinceMs = -Infinity, onRead }: HistoryOptions,
): LoggedHistory {
  const files = LOG_FORMATS.filter(({ agent }) => wanted === undefined || agent === wanted)
    .flatMap((format) => filesOf(format, places).map((file) => ({ format, ...file })))
    .filter(({ changedMs }) => changedMs >= sinceMs);
  const totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const all = emptyTotals();
  const by = { day: new Map(), model: new Map(), project: new Map(), agent: new Map() } satisfies TotalsBy;
  const sessions: HistorySession[] = [];
  const seen = new Set<string>();
  const unknownLines = new Map<string, number>();
  const unreadable: { path: string; why: string }[] = [];
  let lines = 0;
  const add = ({ id, project, calls }: LoggedSession, { agent, path }: { agent: string; path: string }) => {
    const totals = emptyTotals();
    const models = new Map<string, number>();
    const spent = new SpentCalls();
    for (const call of calls) {
      const paid = spent.next(call);
      const name = `${agent} ${call.id}`;
      // Sessions that continue another one repeat its calls.
      if (seen.has(name)) continue;
      seen.add(name);
      models.set(call.model, (models.get(call.model) ?? 0) + 1);
      const day = new Date(call.atMs).toISOString().slice(0, 10);
      const keys = { day, model: call.model, project, agent };
      for (const cut of CUTS) addCall(totalsIn(by[cut], keys[cut]), paid);
      addCall(all, paid);
      addCall(totals, paid);
    }
    const [model] = [...models].sort(([, a], [, b]) => b - a)[0] ?? [];
    if (model === undefined) return;
    const times = { startMs: calls[0]?.atMs ?? 0, endMs: calls.at(-1)?.atMs ?? 0 };
    sessions.push({ agent, id, project, model, ...times, totals, path });
  };
  for (const { format: { agent, read }, path, bytes } of files) {
    const line = (isKnown: boolean) => {
      lines++;
      if (!isKnown) unknownLines.set(agent, (unknownLines.get(agent) ?? 0) + 1);
    };
    try {
      for (const session of read(path, { messages: false, line })) {
        if (project !== undefined && !session.project.includes(project)) continue;
        add({ ...session, calls: session.calls.filter(({ atMs }) => atMs >= sinceMs) }, { agent, path });
      }
    } catch (error) {
      unreadable.push({ path, why: error instanceof Error ? error.message : String(error) });
    }
    onRead?.(bytes, totalBytes);
  }
  sessions.sort((a, b) => b.totals.usd - a.totals.usd || b.totals.promptTokens - a.totals.promptTokens);
  return { all, by, sessions, files: files.length, lines, unknownLines, unreadable };
}

interface LogFile {
  readonly path: string;
  readonly bytes: number;
  readonly changedMs: number;
}

function filesOf(format: LogFormat, places: Places): LogFile[] {
  return [...format.find(places)].map((path) => {
    const { size, mtime } = Deno.statSync(path);
    // The newest content of a database is in its write-ahead log.
    return { path, bytes: size, changedMs: path.endsWith(".db") ? Infinity : mtime?.getTime() ?? Infinity };
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
