import { CLAUDE_CODE } from "./claude_code.ts";
import { CLINE } from "./cline.ts";
import { CODEX } from "./codex.ts";
import { COPILOT } from "./copilot.ts";
import type { LogFormat, LoggedCall, LoggedSession, Places } from "./log.ts";
import { OPENCODE } from "./opencode.ts";
import { PI } from "./pi.ts";
import { QWEN_CODE } from "./qwen_code.ts";
import { addCall, type HistorySums, noSums, SpentCalls } from "./spent.ts";

/** The agents whose logs can be read. */
export const LOG_FORMATS: readonly LogFormat[] = [
  CLAUDE_CODE,
  CODEX,
  OPENCODE,
  PI,
  QWEN_CODE,
  COPILOT,
  CLINE,
];

/** What is read. */
export interface HistoryOptions {
  readonly places: Places;
  readonly agent?: string | undefined;
  /** A part of the folder's path. Default: any. */
  readonly project?: string | undefined;
  /** Calls before are left out. Default: none are. */
  readonly sinceMs?: number | undefined;
  /** Told of bytes that were read, after each file. */
  readonly onRead?: (bytes: number, total: number) => void;
}

/** A session of a history: where it stands, and what it cost. */
export interface HistorySession {
  readonly agent: string;
  readonly id: string;
  readonly project: string;
  readonly model: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly sums: HistorySums;
  readonly path: string;
}

const CUTS = ["day", "model", "project", "agent"] as const;

/** Sums by what they are cut by. */
export type SumsBy = Readonly<Record<typeof CUTS[number], ReadonlyMap<string, HistorySums>>>;

/** What agents have written down of what was spent. */
export interface LoggedHistory {
  readonly all: HistorySums;
  readonly by: SumsBy;
  readonly sessions: readonly HistorySession[];
  readonly files: number;
  readonly lines: number;
  /** Lines of no known shape, by the agent whose they are. */
  readonly unknownLines: ReadonlyMap<string, number>;
  /** Files that couldn't be read, and why. */
  readonly unreadable: readonly { readonly path: string; readonly why: string }[];
}

/** Reads all logs of this machine's agents, one file's numbers in memory at a time. */
export function readLogs(
  { places, agent, project, sinceMs = -Infinity, onRead }: HistoryOptions,
): LoggedHistory {
  const files = LOG_FORMATS.filter((format) => agent === undefined || format.agent === agent)
    .flatMap((format) => filesOf(format, places).map((file) => ({ format, ...file })))
    .filter(({ changedMs }) => changedMs >= sinceMs);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const books = new Books();
  for (const { format, path, bytes } of files) {
    books.read(format, path, (session) => {
      if (project !== undefined && !session.project.includes(project)) return [];
      return session.calls.filter(({ atMs }) => atMs >= sinceMs);
    });
    onRead?.(bytes, total);
  }
  return books.close();
}

interface LogFile {
  readonly path: string;
  readonly bytes: number;
  readonly changedMs: number;
}

function filesOf(format: LogFormat, places: Places): LogFile[] {
  return [...format.find(places)].map((path) => {
    const { size, mtime } = Deno.statSync(path);
    // What is written first stands in a file beside a database.
    return { path, bytes: size, changedMs: path.endsWith(".db") ? Infinity : mtime?.getTime() ?? Infinity };
  });
}

class Books {
  readonly #all = noSums();
  readonly #by = { day: new Map(), model: new Map(), project: new Map(), agent: new Map() } satisfies Record<
    keyof SumsBy,
    Map<string, HistorySums>
  >;
  readonly #sessions: HistorySession[] = [];
  readonly #seen = new Set<string>();
  readonly #unknown = new Map<string, number>();
  readonly #unreadable: { path: string; why: string }[] = [];
  #files = 0;
  #lines = 0;

  read(format: LogFormat, path: string, callsOf: (session: LoggedSession) => readonly LoggedCall[]): void {
    const { agent } = format;
    const line = (isKnown: boolean) => {
      this.#lines++;
      if (!isKnown) this.#unknown.set(agent, (this.#unknown.get(agent) ?? 0) + 1);
    };
    this.#files++;
    try {
      for (const session of format.read(path, { messages: false, line })) {
        this.#book(agent, path, { ...session, calls: callsOf(session) });
      }
    } catch (error) {
      // One damaged file must not keep the others from being read: it is told at the end.
      this.#unreadable.push({ path, why: error instanceof Error ? error.message : String(error) });
    }
  }

  #book(agent: string, path: string, { id, project, calls }: LoggedSession): void {
    const sums = noSums();
    const models = new Map<string, number>();
    const spent = new SpentCalls();
    for (const call of calls) {
      const paid = spent.next(call);
      const name = `${agent} ${call.id}`;
      // A session that goes on from another one repeats its calls, which were paid once.
      if (this.#seen.has(name)) continue;
      this.#seen.add(name);
      models.set(call.model, (models.get(call.model) ?? 0) + 1);
      const day = new Date(call.atMs).toISOString().slice(0, 10);
      const keys = { day, model: call.model, project, agent };
      for (const by of CUTS) addCall(sumsIn(this.#by[by], keys[by]), paid);
      addCall(this.#all, paid);
      addCall(sums, paid);
    }
    const [model] = [...models].sort(([, a], [, b]) => b - a)[0] ?? [];
    if (model === undefined) return;
    const times = { startMs: calls[0]?.atMs ?? 0, endMs: calls.at(-1)?.atMs ?? 0 };
    this.#sessions.push({ agent, id, project, model, ...times, sums, path });
  }

  close(): LoggedHistory {
    const dearest = this.#sessions.sort((a, b) =>
      b.sums.usd - a.sums.usd || b.sums.promptTokens - a.sums.promptTokens
    );
    return {
      all: this.#all,
      by: this.#by,
      sessions: dearest,
      files: this.#files,
      lines: this.#lines,
      unknownLines: this.#unknown,
      unreadable: this.#unreadable,
    };
  }
}

function sumsIn(map: Map<string, HistorySums>, key: string): HistorySums {
  const sums = map.get(key) ?? noSums();
  map.set(key, sums);
  return sums;
}

/** A session with what was said in it; nothing if it isn't there any more. */
export function readWhole({ agent, id, path }: HistorySession): LoggedSession | undefined {
  const format = LOG_FORMATS.find((format) => format.agent === agent);
  for (const session of format?.read(path, { messages: true, line: () => {}, only: id }) ?? []) {
    if (session.id === id) return session;
  }
  return undefined;
}
