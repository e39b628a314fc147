import { EMPTY_LEDGER, type LoopEvent } from "@tare/loop";
import type { CountTokens, Tool } from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import type { SessionStore } from "@tare/store";
import { recallTool } from "@tare/tools";
import { asLoopEvent, EventLog } from "./event_log.ts";
import { HttpError } from "./http_error.ts";
import { makeContext, type Policy } from "./make_context.ts";
import { HISTORY_EVENTS, rebuildHistory } from "./rebuild_history.ts";
import { recoveryEvents } from "./recovery_events.ts";
import type { CreateSession } from "./request_schemas.ts";
import type { Session, SessionInfo, SessionTotals } from "./session.ts";
import type { ContextOptions } from "./session_context.ts";

/** What sessions are made of. */
export interface SessionOptions extends Omit<ContextOptions, "archive" | "tools" | "countTokens" | "state"> {
  /** Where sessions are kept. */
  readonly store: SessionStore;
  /** What decides when a prompt is rewritten. Default: `planner`. */
  readonly policy?: Policy;
  /** Model of sessions that name none. */
  readonly defaultModel: string;
  /** System message of sessions that bring none. Default: {@linkcode DEFAULT_INSTRUCTIONS}. */
  readonly instructions?: string;
  /** Tools that sessions may use, beside `recall`, which each session gets for its own archive. */
  readonly tools: readonly Tool[];
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
}

/** The system message of sessions that bring none. */
export const DEFAULT_INSTRUCTIONS: string =
  "You are an agent that works in a folder of files, the workspace, with tools. " +
  "Find out what you need to know with the tools instead of guessing; make independent calls in one step. " +
  "When you are done, answer briefly, and name the files that your answer rests on.";

/** Idle sessions that stay in memory; the one not used for longest goes first. */
const MAX_IDLE = 16;

/**
 * The sessions of a server. All are in the store; in memory are those with a running turn, and a few idle ones. A
 * session that an earlier process left in the middle of a turn is mended when it is first asked for.
 */
export class Sessions {
  readonly #options: SessionOptions;
  /** In order of their last use. */
  readonly #loaded = new Map<string, Session>();

  /** The sessions of this store. */
  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Makes a session. @throws {HttpError} 400 if it names a tool that isn't there. */
  async create({ instructions, model, tools, metadata = {}, budget = {} }: CreateSession): Promise<Session> {
    const { store, defaultModel, now = Date.now } = this.#options;
    const offered = this.#toolNames();
    checkNames(tools, offered);
    const countTokens = await this.#options.countTokens();
    const record = {
      id: crypto.randomUUID(),
      createdAtMs: now(),
      settings: {
        instructions: instructions ?? this.#options.instructions ?? DEFAULT_INSTRUCTIONS,
        model: model ?? defaultModel,
        tools: offered.filter((name) => tools?.includes(name) ?? true),
        metadata,
        budget,
      },
    };
    store.createSession(record);
    return this.#load(record, countTokens);
  }

  /** The session of this id. @throws {HttpError} 404 if there is none. */
  async get(id: string): Promise<Session> {
    const countTokens = await this.#options.countTokens();
    // From here on nothing waits, so that no session is ever loaded twice.
    const loaded = this.#loaded.get(id);
    if (loaded) {
      this.#touch(loaded);
      return loaded;
    }
    const record = this.#options.store.getSession(id);
    if (record) return this.#load(asRecord(record), countTokens);
    throw new HttpError(404, "not_found", `Cannot find session ${id}: there is no such session.`);
  }

  /** How many there are. */
  get count(): number {
    return this.#options.store.countSessions();
  }

  /** All sessions, the newest first, without loading them. */
  list(): readonly SessionInfo[] {
    const { store } = this.#options;
    return store.listSessions({ limit: Number.MAX_SAFE_INTEGER }).map((record) => {
      const { id } = record;
      const totals = (store.readState(id, "totals") ?? NO_TURNS) as SessionTotals;
      return this.#loaded.get(id) ?? { ...asRecord(record), ...totals, lastEvent: store.lastEvent(id) };
    });
  }

  /** Cancels what runs in the session and removes it with all that only it refers to. */
  async delete(session: Session): Promise<void> {
    await stop(session);
    this.#loaded.delete(session.id);
    this.#options.store.deleteSession(session.id);
  }

  /** Cancels every running turn and waits until they have ended. */
  async close(): Promise<void> {
    await Promise.all([...this.#loaded.values()].map(stop));
  }

  #load({ id, createdAtMs, settings }: SessionRecordOf, countTokens: CountTokens): Session {
    const { store, tools: offered, policy = "planner", ...options } = this.#options;
    const archive = store.archive(id);
    const tools = [...offered, recallTool(archive, { countTokens })]
      .filter((tool) => settings.tools.includes(nameOf(tool)));
    const events = new EventLog(store, id);
    const { messages, ledger, turns } = mend(store, { id, events, tools });
    const context = makeContext({
      ...options,
      policy,
      archive,
      tools,
      countTokens,
      model: settings.model,
      state: store.readState(id, "context"),
    });
    let saved = context.state;
    const session: Session = {
      id,
      createdAtMs,
      settings,
      tools,
      events,
      archive,
      context,
      ledger,
      turns,
      history: settings.instructions === ""
        ? messages
        : [{ role: "system", content: settings.instructions }, ...messages],
      get lastEvent() {
        return events.last;
      },
      saveContext() {
        if (context.state !== saved) store.saveState(id, { context: saved = context.state });
      },
      released: (failed) => {
        // What a failed turn left in memory may not be what is stored.
        if (failed) this.#loaded.delete(id);
        else this.#evict();
      },
    };
    this.#touch(session);
    return session;
  }

  #touch(session: Session): void {
    this.#loaded.delete(session.id);
    this.#loaded.set(session.id, session);
    this.#evict();
  }

  #evict(): void {
    const idle = [...this.#loaded.values()].filter(({ running }) => !running);
    for (const { id } of idle.slice(0, Math.max(0, idle.length - MAX_IDLE))) this.#loaded.delete(id);
  }

  #toolNames(): readonly string[] {
    return [...this.#options.tools.map(nameOf), RECALL_TOOL.function.name];
  }
}

const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER };

type SessionRecordOf = Pick<SessionInfo, "id" | "createdAtMs" | "settings">;

/** A record as it was created: nothing else is in the store. */
function asRecord(record: ReturnType<SessionStore["listSessions"]>[number]): SessionRecordOf {
  return record as SessionRecordOf;
}

/** The session's history. A turn that an earlier process left unfinished is ended first. */
function mend(
  store: SessionStore,
  { id, events, tools }: { readonly id: string; readonly events: EventLog; readonly tools: readonly Tool[] },
) {
  const read = (): LoopEvent[] =>
    store.readEvents(id, { types: HISTORY_EVENTS }).map(({ event }) => asLoopEvent(event));
  const rebuilt = rebuildHistory(read());
  if (!rebuilt.interrupted) return rebuilt;
  const { ledger, turns } = rebuilt;
  events.append(recoveryEvents(rebuilt.interrupted, tools), { totals: { ledger, turns: turns + 1 } });
  return rebuildHistory(read());
}

async function stop({ running }: Session): Promise<void> {
  running?.cancel();
  await running?.done;
}

function nameOf(tool: Tool): string {
  return tool.definition.function.name;
}

function checkNames(names: readonly string[] = [], offered: readonly string[]): void {
  for (const name of names) {
    if (offered.includes(name)) continue;
    throw new HttpError(
      400,
      "invalid_request",
      `Cannot use tool ${JSON.stringify(name)}: there are ${offered.join(", ")}.`,
    );
  }
}
