import { createHash } from "node:crypto";
import { Session } from "@tare/session";
import { Accounts, type Sums } from "@tare/session/internal/report";
import { LRUCache } from "lru-cache";
import { type About, Recognition, type RequestHistory, type StoredHistory } from "@tare/planner/internal";
import {
  type ClientSummary,
  countInstructions,
  GatewaySession,
  personSpoke,
  type Recognised,
  type SessionParts,
} from "./session.ts";
import type { ConversationListing } from "./conversations.ts";
import { InstructionKeys, type Known } from "./instruction_keys.ts";
import { LayeredArchive } from "./layered_archive.ts";
import { historyItem, textsOf } from "./history.ts";

/** A session that was stored: what it is made of beside its place among the others, and by what it is recognised. */
export interface StoredSession {
  readonly parts: Omit<SessionParts, "length" | "number">;
  readonly history: StoredHistory;
  readonly instructions: readonly Known[];
}

/** How sessions are kept. */
export interface SessionsOptions {
  /** Share of sessions, from 0 to 1, that are left as they are. Default: 0. */
  readonly control?: number | undefined;
  /** Told of each session that went on from a summary with a new history. */
  readonly resumed?: (session: GatewaySession, summary: ClientSummary) => void;
  /** Most bytes of memory that all may take together. */
  readonly maxBytes: number;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}

/**
 * The conversations that pass through the gateway, in memory. Those used longest ago are forgotten first; one that was
 * forgotten is seen as new, and costs what a new one costs.
 */
export class GatewaySessions {
  readonly #options: SessionsOptions;
  readonly #recognition = new Recognition<GatewaySession>();
  readonly #instructions = new InstructionKeys();
  /** An object of its own each time that a session is weighed: the cache weighs no value again. */
  readonly #sessions: LRUCache<string, { readonly session: GatewaySession }>;
  /** Ids by the names that clients gave. */
  readonly #names = new Map<string, string>();
  /** Those that an earlier process began, or another one, and that weren't used here yet. */
  readonly #adopted = new WeakSet<GatewaySession>();
  /** What those came to that were known here, forgotten ones too. */
  readonly #accounts = new Accounts();
  #begun = 0;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sessions = new LRUCache({
      maxSize: options.maxBytes,
      sizeCalculation: ({ session }) => session.bytes,
      dispose: ({ session }) => this.#forget(session),
      noDisposeOnSet: true,
    });
  }

  /** How many are known. */
  get size(): number {
    return this.#sessions.size;
  }

  /** A session has come to more, at a moment in milliseconds since the epoch. */
  book({ group }: GatewaySession, more: Partial<Sums>, atMs: number): void {
    this.#accounts.book(group, more, atMs);
  }

  /** What all sessions came to that were known here; or those that are, and began with a key of this name. */
  accounts(by?: string): Promise<Accounts> {
    if (by === undefined) return Promise.resolve(this.#accounts);
    const accounts = new Accounts();
    for (const { facts, group, kept, conversation: { state } } of this.list()) {
      if (facts.by === by) accounts.begin(group, state.days, { isFork: kept.parent !== undefined });
    }
    return Promise.resolve(accounts);
  }

  /** The session with this id, if it is still known. */
  get(id: string): GatewaySession | undefined {
    return this.#sessions.get(id)?.session;
  }

  /** The same; it doesn't count as used. */
  peek(id: string): GatewaySession | undefined {
    return this.#sessions.peek(id)?.session;
  }

  /** All that are known, the newest first. They don't count as used. */
  list(): readonly GatewaySession[] {
    return Array.from(this.#sessions.values(), ({ session }) => session).sort((a, b) => b.number - a.number);
  }

  /**
   * Returns those of a list that are `wanted`, the newest first, and whether the one is known `after` which it begins.
   * They don't count as used.
   */
  page(
    { after, search = "", by }: ConversationListing,
    isWanted: (session: GatewaySession) => boolean = () => true,
  ): { readonly sessions: readonly GatewaySession[]; readonly isKnown: boolean } {
    const all = this.list().filter((session) =>
      isWanted(session) && (by === undefined || session.facts.by === by)
    );
    const from = all.findIndex(({ id }) => id === after) + 1;
    if (after !== undefined && from === 0) return { sessions: [], isKnown: false };
    const text = search.toLowerCase();
    const sessions = all.slice(from).filter(({ conversation: { state } }) =>
      state.title.toLowerCase().includes(text)
    );
    return { sessions, isKnown: true };
  }

  /** Forgets a session. */
  delete({ id }: Pick<GatewaySession, "id">): void {
    this.#sessions.delete(id);
  }

  /** A session has grown: others may have to go for it. */
  weigh(session: GatewaySession): void {
    if (this.isCurrent(session)) this.#keep(session);
  }

  /** Whether this is what is known of the session of its id: what is remembered may be replaced by what was stored. */
  isCurrent(session: GatewaySession): boolean {
    return this.peek(session.id) === session;
  }

  /** Whether the session is known that a request goes on with. */
  knows(recognised: Recognised): boolean {
    const named = this.#named(recognised);
    const history = this.#historyOf(recognised, { learns: false });
    return this.#recognition.recognise(history, named).type === "continue";
  }

  /** What a session's history is recognised by. */
  historyOf(session: GatewaySession): StoredHistory {
    return this.#recognition.stored(session);
  }

  /** What is known of the instructions that are named so. */
  instructionsOf(keys: readonly string[]): readonly Known[] {
    return keys.flatMap((key) => this.#instructions.known(key) ?? []);
  }

  /** Takes in a session that was stored, in place of what is known of it. */
  adopt({ parts, history, instructions }: StoredSession): void {
    const { conversation: { id }, facts } = parts;
    const before = this.peek(id);
    if (before) this.#forget(before);
    for (const known of instructions) this.#instructions.learn(known);
    const length = history.items.length;
    const session = new GatewaySession({ ...parts, length, number: before?.number ?? this.#begun++ });
    this.#recognition.restore(session, history, facts.lastMs);
    const name = nameOf(facts);
    if (name !== undefined) this.#names.set(name, id);
    if (!before || this.#adopted.has(before)) this.#adopted.add(session);
    this.#keep(session);
  }

  /** The session that goes on with this request: a known one, a fork of one, or a new one. */
  find(recognised: Recognised): GatewaySession {
    const { scope, items } = recognised;
    const history = this.#historyOf(recognised, { learns: true });
    const found = this.#recognition.recognise(history, this.#named(recognised));
    const own = () => ({ id: crypto.randomUUID(), number: this.#begun++, scope });
    const session = found.type === "continue"
      ? found.known
      : found.type === "fork"
      ? found.known.fork(items.slice(0, found.at), own())
      : this.#begin(recognised);
    let begunWith: ClientSummary | undefined;
    if (found.type === "continue") {
      session.continueFrom(items, found);
      if (found.how === "anew") begunWith = session.facts.summary;
      // What came first was the first turn only if this history continues it with its answer.
      const isAnswered = found.how === "grown" && items.length > found.at;
      if (!session.isBegun && !isAnswered) session.begin(recognised);
    }
    session.goOn(recognised, begunWith);
    if (begunWith) this.#options.resumed?.(session, begunWith);
    return this.#follow(session, history);
  }

  /**
   * The session of a request that no known one goes on with, and that may be none of a session's turns, such as one for a
   * title: one without turns, by its key or as the same request was sent before, or a new one. A turn begins it later.
   */
  precede(recognised: Recognised): GatewaySession {
    const history = this.#historyOf(recognised, { learns: true });
    const known = this.#recognition.preceding(history, this.#named(recognised));
    known?.begin(recognised);
    const session = known ?? this.#begin(recognised);
    session.precede(recognised);
    return this.#follow(session, history);
  }

  /** The session that a request is about which isn't one of its turns, such as for a summary or a title. Changes nothing. */
  about(recognised: Recognised): About<GatewaySession> | undefined {
    const history = this.#historyOf(recognised, { learns: false });
    return this.#recognition.about(history, this.#named(recognised));
  }

  #follow(session: GatewaySession, history: RequestHistory): GatewaySession {
    this.#recognition.follow(session, history, (this.#options.now ?? Date.now)());
    if (this.#adopted.delete(session)) this.#open(session);
    this.#keep(session);
    return session;
  }

  /** The history of a request. Instructions have one name however they change; `learns`: they count as seen. */
  #historyOf(recognised: Recognised, { learns }: { readonly learns: boolean }): RequestHistory {
    const { scope, client, isKeyed, items } = recognised;
    const heads = countInstructions(items);
    const keyOf = (at: number) =>
      learns ? this.#instructions.keyOf(scope, items[at]!) : this.#instructions.peek(scope, items[at]!);
    return {
      ...{ scope, client, isKeyed, name: recognised.name },
      items: items.map((item, at) =>
        at < heads ? { exact: keyOf(at), role: "instruction" } : historyItem(item)
      ),
      textsOf: (at) => textsOf(items[at]!),
    };
  }

  #named(recognised: Recognised): GatewaySession | undefined {
    const name = nameOf(recognised);
    return name === undefined ? undefined : this.get(this.#names.get(name) ?? "");
  }

  #keep(session: GatewaySession): void {
    this.#sessions.set(session.id, { session });
    // One that is larger than all may be isn't kept at all.
    if (!this.#sessions.has(session.id)) this.#forget(session);
  }

  #begin(recognised: Recognised): GatewaySession {
    const {
      client,
      by,
      scope,
      items,
      prompts,
      protocol = "",
      agent,
      basis,
      countTokens,
      isObserved = false,
    } = recognised;
    const name = nameOf(recognised);
    const first = items[personSpoke(items)?.at ?? countInstructions(items)];
    const archive = new LayeredArchive();
    // Whatever comes first under a key, a title or the first turn, its session is of the same group.
    const drawn = name ?? (recognised.isKeyed ? scope : `${scope} ${first?.key ?? ""}`);
    const control = isObserved || share(drawn) < (this.#options.control ?? 0);
    const nowMs = (this.#options.now ?? Date.now)();
    const id = crypto.randomUUID();
    const session = new GatewaySession({
      conversation: new Session({
        ...{ id, archive, countTokens },
        prompts: prompts({ archive, control, agent, basis }),
      }),
      archive,
      number: this.#begun++,
      length: 0,
      facts: {
        ...{ scope, client, by, name: recognised.name, protocol, agent, basis, control },
        ...{ startedMs: nowMs, lastMs: nowMs, historyBytes: 0, heads: 0, hasTools: false },
        ...{ isAnswered: false, isAmidTurn: false },
        ...{ refusals: 0, isReverted: false, responses: [], compactions: [] },
      },
    });
    if (name !== undefined) this.#names.set(name, id);
    this.#open(session);
    return session;
  }

  /** A session that is no fork is used here for the first time. */
  #open({ group, conversation: { state } }: GatewaySession): void {
    this.#accounts.begin(group, state.days);
  }

  #forget(session: GatewaySession): void {
    const { id } = session;
    const name = nameOf(session.facts);
    this.#recognition.forget(session);
    if (name !== undefined && this.#names.get(name) === id) this.#names.delete(name);
  }
}

function nameOf({ scope, name }: Pick<Recognised, "scope" | "name">): string | undefined {
  return name === undefined ? undefined : `${scope} ${name}`;
}

/** A number from 0 to 1 that is always the same for the same text. */
function share(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
