import { createHash } from "node:crypto";
import { type About, Recognition, type RequestHistory, type StoredHistory } from "@tare/planner/internal";
import { HeldSessions, Session, type UnsummedSessions } from "@tare/session/internal";
import { addDays, addToDay, type Days, type SessionGroup, type Sums } from "@tare/session/internal/report";
import {
  type ClientSummary,
  countInstructions,
  GatewaySession,
  personSpoke,
  type Recognised,
  type SessionParts,
} from "./session.ts";
import { LayeredArchive } from "./layered_archive.ts";
import { historyItem, InstructionKeys, itemTexts, type Known } from "./history.ts";

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

/** Recognises the conversations that pass through the gateway: one that is evicted is seen as new, and costs what a new one costs. */
export class GatewaySessions {
  /** Those in memory. */
  readonly held: HeldSessions<GatewaySession>;
  readonly #options: SessionsOptions;
  readonly #recognition = new Recognition<GatewaySession>();
  readonly #instructions = new InstructionKeys();
  /** Ids by the names that clients gave. */
  readonly #names = new Map<string, string>();
  /** Totals of evicted sessions. */
  readonly #evicted = new Map<SessionGroup, { readonly sessions: number; readonly days: Days }>();
  #begun = 0;

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.held = new HeldSessions<GatewaySession>({
      maxWeight: options.maxBytes,
      weigh: ({ bytes }) => bytes,
      evicted: (session) => {
        this.#forget(session);
        const { group, kept: { parent }, session: { state } } = session;
        const { sessions, days } = this.#evicted.get(group) ?? { sessions: 0, days: {} };
        const isFork = parent !== undefined;
        this.#evicted.set(group, { sessions: sessions + (isFork ? 0 : 1), days: addDays(days, state.days) });
      },
    });
  }

  /** Returns the totals of evicted sessions. */
  get evicted(): readonly UnsummedSessions[] {
    return Array.from(this.#evicted, ([group, totals]) => ({ group, ...totals }));
  }

  /** A session has come to more, at a moment in milliseconds since the epoch: of an evicted one nothing else tells. */
  book(session: GatewaySession, more: Partial<Sums>, atMs: number): void {
    const { group } = session;
    const evicted = this.#evicted.get(group);
    if (!evicted || this.isCurrent(session)) return;
    this.#evicted.set(group, { ...evicted, days: addToDay(evicted.days, more, { atMs, model: "" }) });
  }

  /** A session has grown: others may have to go for it. */
  weigh(session: GatewaySession): void {
    if (this.isCurrent(session)) this.held.use(session);
  }

  /** Whether this is what is known of the session of its id: what is remembered may be replaced by what was stored. */
  isCurrent(session: GatewaySession): boolean {
    return this.held.find(session.id) === session;
  }

  /** Whether the session is known that a request continues at its end: of other ones the store may know more. */
  knows(recognised: Recognised): boolean {
    if (this.#named(recognised)) return true;
    const found = this.#recognition.recognise(this.#historyOf(recognised, { learns: false }));
    return found.type === "continue" && found.how !== "back" && found.how !== "anew";
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
    const { session: { id }, facts } = parts;
    const before = this.held.find(id);
    if (before) this.#forget(before);
    for (const known of instructions) this.#instructions.learn(known);
    const length = history.items.length;
    const session = new GatewaySession({ ...parts, length, number: before?.number ?? this.#begun++ });
    this.#recognition.restore(session, history, facts.lastMs);
    const name = nameOf(facts);
    if (name !== undefined) this.#names.set(name, id);
    this.held.use(session);
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
    this.held.use(session);
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
      textsOf: (at) => itemTexts(items[at]!),
    };
  }

  #named(recognised: Recognised): GatewaySession | undefined {
    const name = nameOf(recognised);
    return name === undefined ? undefined : this.held.get(this.#names.get(name) ?? "");
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
      session: new Session({
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
    return session;
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
