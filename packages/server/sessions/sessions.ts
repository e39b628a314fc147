import { EMPTY_LEDGER, type Model } from "@tare/loop";
import type { Content, CountTokens, Tool } from "@tare/messages";
import {
  classicSession,
  type Mechanisms,
  plannerSession,
  type Profile,
  type PromptSession,
} from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import type { SessionStore } from "@tare/store";
import { recallTool } from "@tare/tools";
import { asSessionEvent, EventLog } from "./event_log.ts";
import { HttpError } from "../http/http_error.ts";
import { HISTORY_EVENTS, rebuildHistory } from "./rebuild_history.ts";
import { recoveryEvents, type RecoveryOptions } from "./recovery_events.ts";
import type { CreateSession } from "../api/request_schemas.ts";
import type { Session, SessionContext, SessionInfo, SessionTotals } from "./session.ts";
import { summariseWith } from "./summarise_with.ts";

/** What decides when a prompt is rewritten. */
export type Policy = "planner" | "classic";

/** Names of the policies, the default first. */
export const POLICIES: readonly Policy[] = ["planner", "classic"];

/** What sessions are made of. */
export interface SessionOptions {
  /** Which mechanisms work. */
  readonly mechanisms: Mechanisms;
  /** The provider's cache rules and prices. */
  readonly profile: Profile;
  /** The model's context window in tokens. */
  readonly windowTokens: number;
  /** A sentence that every turn starts with, as a warning. Default: none. */
  readonly notice?: string;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
  /** Where sessions are kept. */
  readonly store: SessionStore;
  /** What decides when a prompt is rewritten. Default: `planner`. */
  readonly policy?: Policy;
  /**
   * The model port for a model's name: it summarises old turns when the window is full of what isn't tool results.
   * Default: old turns are dropped then.
   */
  readonly model?: (name: string) => Model;
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
 * The sessions of a server. All are in the store; in memory are those with a running turn, a few idle ones, and
 * those that somebody still holds. A session that an earlier process left in the middle of a turn is mended when it is
 * first asked for.
 */
export class Sessions {
  readonly #options: SessionOptions;
  /** In order of their last use. */
  readonly #loaded = new Map<string, Session>();
  /** Who holds a session that isn't kept any more may still start a turn in it: it must not be loaded twice. */
  readonly #held = new Map<string, WeakRef<Session>>();

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
    const session = this.#find(id);
    if (session) {
      if (session.events.failed) session.restore();
      this.#touch(session);
      return session;
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
      const session = this.#find(id);
      if (session) return session;
      const totals = (store.readState(id, "totals") ?? NO_TURNS) as SessionTotals;
      return { ...asRecord(record), ...totals, lastEvent: store.lastEvent(id) };
    });
  }

  /** Cancels what runs in the session and removes it with all that only it refers to. */
  async delete(session: Session): Promise<void> {
    await stop(session);
    this.#options.store.deleteSession(session.id);
    this.#loaded.delete(session.id);
    this.#held.delete(session.id);
    session.events.remove();
  }

  /** Cancels every running turn and waits until they have ended. */
  async close(): Promise<void> {
    await Promise.all([...this.#loaded.values()].map(stop));
  }

  #load({ id, createdAtMs, settings }: SessionRecordOf, countTokens: CountTokens): Session {
    const { store, tools: offered, policy = "planner", model, profile, windowTokens, mechanisms } =
      this.#options;
    const makePrompt = policy === "classic" ? classicSession : plannerSession;
    const archive = store.archive(id);
    const tools = [...offered, recallTool(archive, { countTokens })]
      .filter((tool) => settings.tools.includes(nameOf(tool)));
    const events = new EventLog(store, id);
    const read = (end: RecoveryOptions["end"]): Pick<Session, "history" | "ledger" | "turns" | "context"> => {
      const { messages, ledger, turns } = mend(store, { id, events, tools, end });
      return {
        history: settings.instructions === ""
          ? messages
          : [{ role: "system", content: settings.instructions }, ...messages],
        ledger,
        turns,
        context: contextOf(
          makePrompt({
            profile,
            windowTokens,
            mechanisms,
            archive,
            tools: Object.fromEntries(tools.map((tool) => [nameOf(tool), tool])),
            countTokens,
            ...(model && {
              // A model that can't be had must not keep anybody from the session.
              summarise: (messages, signal) =>
                summariseWith(model(settings.model), countTokens)(messages, signal),
            }),
            state: store.readState(id, "context"),
          }),
          { ...this.#options, model: settings.model },
        ),
      };
    };
    const session: Session = {
      ...read(INTERRUPTED),
      id,
      createdAtMs,
      settings,
      tools,
      events,
      archive,
      get lastEvent() {
        return events.last;
      },
      unsaved() {
        const { state } = session.context;
        if (state === stored) return {};
        stored = state;
        return { context: state };
      },
      restore(end = INTERRUPTED) {
        Object.assign(session, read(end));
        stored = session.context.state;
        events.close();
      },
      released: () => this.#evict(),
    };
    let stored = session.context.state;
    this.#held.set(id, new WeakRef(session));
    this.#touch(session);
    return session;
  }

  #find(id: string): Session | undefined {
    return this.#loaded.get(id) ?? this.#held.get(id)?.deref();
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

/** Lets a prompt session decide what the loop's requests show. */
function contextOf(
  prompt: PromptSession,
  { model, notice, now = Date.now }: Pick<SessionOptions, "notice" | "now"> & { readonly model: string },
): SessionContext {
  const { quote } = prompt;
  return {
    async view({ messages, tools, turnStart, step, signal }) {
      const call = { nowMs: now(), model, turnStart, step, signal };
      const view = await prompt.view({ messages, tools }, call);
      const warnings = step === 1 && notice !== undefined ? [notice, ...view.warnings] : view.warnings;
      return { ...view, warnings, succeeded: (usage) => prompt.sent(usage, view) };
    },
    get state() {
      return prompt.state;
    },
    ...(quote && { quote: (conversation) => quote(conversation, { nowMs: now(), model }) }),
  };
}

const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER };

type SessionRecordOf = Pick<SessionInfo, "id" | "createdAtMs" | "settings">;

/** A record as it was created: nothing else is in the store. */
function asRecord(record: ReturnType<SessionStore["listSessions"]>[number]): SessionRecordOf {
  return record as SessionRecordOf;
}

/** How a turn ended that an earlier process left unfinished. */
const INTERRUPTED: RecoveryOptions["end"] = {
  reason: "interrupted",
  message: "The server ended in the middle of this turn. It can be continued.",
};

/** The session's history. A turn that was left unfinished is ended first. */
function mend(
  store: SessionStore,
  { id, events, ...options }: Omit<RecoveryOptions, "waiting"> & {
    readonly id: string;
    readonly events: EventLog;
  },
) {
  const read = () =>
    rebuildHistory(store.readEvents(id, { types: HISTORY_EVENTS }).map(({ event }) => asSessionEvent(event)));
  const rebuilt = read();
  if (!rebuilt.interrupted) return rebuilt;
  const waiting = (store.readState(id, "steering") ?? []) as readonly Content[];
  const totals: SessionTotals = { ledger: rebuilt.ledger, turns: rebuilt.turns + 1 };
  events.append(recoveryEvents(rebuilt.interrupted, { ...options, waiting }), { totals, steering: [] });
  return read();
}

async function stop(session: Session): Promise<void> {
  // Who has read a turn's end may start the next at once.
  while (session.running) {
    session.running.cancel();
    await session.running?.done;
  }
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
