import { createHash } from "node:crypto";
import { HeldSessions, Session, type UnsummedSessions } from "@tare/session/internal";
import { addDays, addToDay, type Days, type SessionGroup, type Sums } from "@tare/session/internal/report";
import type { WireItem } from "@tare/wire/internal";
import { ChainIndex, type ChainNode, chainTo, lastShared, sharedLength } from "./chain_index.ts";
import {
  type ClientSummary,
  countInstructions,
  GatewaySession,
  hasAnswers,
  personSpoke,
  quotes,
  type Recognised,
  type SessionParts,
  textOf,
} from "./session.ts";
import { InstructionKeys, type Known } from "./instruction_keys.ts";
import { LayeredArchive } from "./layered_archive.ts";

/** A session that a request is about, and how many items at the start of their histories are the same. */
export interface About {
  readonly session: GatewaySession;
  readonly shared: number;
  /** Whether all behind another start is the session's history. Default: no. */
  readonly isCutOff?: boolean;
}

/** A session that was stored: what it is made of beside its place among the others, and by what it is recognised. */
export interface StoredSession {
  readonly parts: Omit<SessionParts, "tip" | "number">;
  /** Names of the items of its history. */
  readonly keys: readonly string[];
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

/** So many sessions used last are looked through for one that a request quotes, or goes on from by a summary. */
const QUOTABLE_SESSIONS = 64;

/** Recognises the conversations that pass through the gateway: one that is evicted is seen as new, and costs what a new one costs. */
export class GatewaySessions {
  /** Those in memory. */
  readonly held: HeldSessions<GatewaySession>;
  readonly #options: SessionsOptions;
  readonly #index = new ChainIndex();
  readonly #instructions = new InstructionKeys();
  /** Ids by the names that clients gave. */
  readonly #names = new Map<string, string>();
  /** Those that an earlier process began, or another one, and that weren't used here yet. */
  readonly #adopted = new WeakSet<GatewaySession>();
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
        const { group, kept: { parent }, conversation: { state } } = session;
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

  /** Whether the session is known that a request goes on with, from where it stood. */
  knows(recognised: Recognised): boolean {
    const { scope, items } = recognised;
    const name = nameOf(recognised);
    if (name !== undefined) return this.#named(name) !== undefined;
    const heads = countInstructions(items);
    const keys = this.#peekKeys(recognised);
    const node = this.#index.find(scope, keys);
    return node.depth > heads && this.#endingAt(node, heads) !== undefined;
  }

  /** What is known of the instructions that are named so. */
  instructionsOf(keys: readonly string[]): readonly Known[] {
    return keys.flatMap((key) => this.#instructions.known(key) ?? []);
  }

  /**
   * Takes in a session that was stored, with the keys of its history and its instructions, in place of what is known of it.
   * What others came by later stays theirs.
   */
  adopt({ parts, keys, instructions }: StoredSession): void {
    const { conversation: { id }, facts } = parts;
    const { scope, lastMs } = facts;
    const before = this.held.find(id);
    if (before) this.#forget(before);
    for (const known of instructions) this.#instructions.learn(known);
    const isOlder = (other: string) => {
      const session = this.held.find(other);
      if (!session) return true;
      const { lastMs: otherMs } = session.facts;
      return otherMs < lastMs || (otherMs === lastMs && this.#adopted.has(session));
    };
    const name = nameOf(facts);
    const node = this.#index.find(name ?? scope, keys);
    const { turns } = facts;
    const givesWay = (other: string) => this.#hasPriority(turns !== undefined, other) ?? isOlder(other);
    const tip = this.#index.claim(node, keys.slice(node.depth), id, givesWay);
    const session = new GatewaySession({ ...parts, tip, number: before?.number ?? this.#begun++ });
    if (name !== undefined) this.#names.set(name, id);
    if (!before || this.#adopted.has(before)) this.#adopted.add(session);
    this.held.use(session);
  }

  /** The session that goes on with this request: a known one, a fork of one, or a new one. */
  find(recognised: Recognised): GatewaySession {
    const session = this.#find(recognised);
    this.#adopted.delete(session);
    return session;
  }

  /**
   * The session of a request that no known one goes on with, and that may be none of a session's turns, such as one for a
   * title: one without turns, by its key or as the same request was sent before, or a new one. A turn begins it later.
   */
  precede(recognised: Recognised): GatewaySession {
    const { scope, isKeyed, items } = recognised;
    const name = nameOf(recognised);
    const keys = this.#keysOf(recognised);
    const node = this.#index.find(name ?? scope, keys);
    const same = this.held.get(node.sessionId ?? "");
    const known = this.#named(name) ??
      (same?.tip === node ? same : isKeyed ? this.#newest(scope) : undefined);
    const session = known && !known.isBegun ? known : this.#begin(recognised, node);
    if (session === known) session.begin(recognised);
    this.#adopted.delete(session);
    const { tip } = session;
    const givesWay = (other: string) => this.#hasPriority(false, other) ?? true;
    session.precede({ items }, this.#index.claim(node, keys.slice(node.depth), session.id, givesWay));
    if (tip !== session.tip) this.#index.release(tip, session.id, lastShared(tip, session.tip));
    this.held.use(session);
    return session;
  }

  /** Whether a session takes a place in the tree of histories from another one; nothing if both have had a turn, or neither has. */
  #hasPriority(isBegun: boolean, other: string): boolean | undefined {
    const session = this.held.find(other);
    return session && session.isBegun !== isBegun ? isBegun : undefined;
  }

  #find(recognised: Recognised): GatewaySession {
    const { scope, items } = recognised;
    const name = nameOf(recognised);
    const keys = this.#keysOf(recognised);
    const node = this.#index.find(name ?? scope, keys);
    const ending = this.#endingAt(node, countInstructions(items));
    const known = ending ?? this.held.get(node.sessionId ?? "");
    const named = this.#named(name);
    const anew = ending?.isBegun
      ? undefined
      : this.#summedUp(recognised, node) ?? this.#cutOff(recognised, keys);
    const before = named ??
      (ending?.isBegun
        ? undefined
        : anew ?? this.#unbegun(recognised, node) ?? this.#brokenOff(recognised, node));
    const goesOn = ending !== undefined && (!before || before === ending);
    const cleared = !before && !goesOn && known?.isClearedIn(items);
    let session: GatewaySession;
    if (goesOn) session = ending;
    else if (before) {
      session = before;
      session.rollBack(items.slice(0, sharedLength(tipOf(before), keys)));
    } else if (known && cleared) {
      session = known;
      session.clearedBehind(items.slice(0, node.depth));
    } else {
      // An opening alone doesn't make a conversation: sub-agents share their instructions, and equal jobs their task as well.
      const shared = items.slice(0, node.depth);
      const isKnown = known && (hasAnswers(shared) || known.holdsSummary(shared));
      const from = isKnown ? { session: known, shared: node.depth } : this.#elsewhere(recognised, keys);
      const own = () => ({ id: crypto.randomUUID(), number: this.#begun++, tip: node, scope });
      session = from ? from.session.fork(items.slice(0, from.shared), own()) : this.#begin(recognised, node);
    }
    const { tip, facts: { summary } } = session;
    // What came first was the first turn only if this history continues it with its answer.
    const isUnplanned = before && !before.isBegun && !(goesOn && items.length > node.depth);
    if (isUnplanned) session.begin(recognised);
    const begunWith = session === anew && !goesOn ? summary : undefined;
    session.goOn(recognised, this.#index.claim(node, keys.slice(node.depth), session.id), begunWith);
    // What it went back from is nobody's history any more.
    if ((before || cleared) && !goesOn) {
      this.#index.release(tip, session.id, lastShared(tip, session.tip));
      if (begunWith) this.#options.resumed?.(session, begunWith);
    }
    this.held.use(session);
    return session;
  }

  /**
   * The session that a request is about which isn't one of its turns, such as for a summary or a title: the one whose
   * history it starts with, whatever the instructions; or the one of its key; or the one that it quotes. Changes nothing.
   */
  about(recognised: Recognised): About | undefined {
    const { scope, items, isKeyed } = recognised;
    const name = nameOf(recognised);
    const keys = this.#peekKeys(recognised);
    const node = this.#index.find(name ?? scope, keys);
    const known = this.held.get(node.sessionId ?? "");
    const heads = countInstructions(items);
    if (known && node.depth > heads) return { session: known, shared: node.depth };
    const others = this.#usedLast(scope);
    const [alike] = others.map((session) => ({ session, shared: sharedLength(tipOf(session), keys, heads) }))
      .sort((a, b) => b.shared - a.shared);
    const named = this.#named(name);
    if (alike && alike.shared > 0 && (!named || named === alike.session)) return alike;
    const cutOff = this.#cutOff(recognised, keys);
    if (cutOff && (!named || named === cutOff)) return { session: cutOff, shared: 0, isCutOff: true };
    const text = textOf(items);
    const session = named ?? (isKeyed && !hasAnswers(items) ? this.#newest(scope) : undefined) ??
      others.find(({ facts: { opening } }) => opening !== undefined && text.includes(opening));
    return session && { session, shared: 0 };
  }

  /** The session whose summary this history goes on from. */
  #summedUp(recognised: Recognised, node: ChainNode): GatewaySession | undefined {
    const { scope, isKeyed, items } = recognised;
    const named = this.#named(nameOf(recognised));
    const candidates = (named ? [named] : this.#usedLast(scope)).filter(({ facts: { summary }, quotable }) =>
      summary || quotable.length > 0
    );
    if (candidates.length === 0) return undefined;
    const quoted = candidates.find(({ quotable }) => quotes(items, quotable));
    if (quoted) return quoted;
    // A summary that can't be read here; with the same key and instructions it is the same conversation. One that goes on
    // from the model's own words is a branch of it: nothing was summed up there.
    const mayBeSum = !hasAnswers(items.slice(0, node.depth));
    const newest = named ?? (isKeyed && node.depth > 0 ? this.#newest(scope) : undefined);
    return mayBeSum && newest?.facts.summary?.isSaid ? newest : undefined;
  }

  /** The session without turns that this history goes on from; or else that of its key, such as one of requests for a title. */
  #unbegun(
    { scope, isKeyed, items }: Recognised,
    { sessionId, depth }: ChainNode,
  ): GatewaySession | undefined {
    const isKnown = depth > countInstructions(items);
    const session = isKnown ? this.held.get(sessionId ?? "") : isKeyed ? this.#newest(scope) : undefined;
    return session?.isBegun ? undefined : session;
  }

  /** The session that a history goes on with whose start is gone: all behind one new text is word for word its end. */
  #cutOff({ scope, items }: Recognised, keys: readonly string[]): GatewaySession | undefined {
    const start = countInstructions(items) + 1;
    const calls = ({ parts }: WireItem) => parts.some(({ message }) => "tool_calls" in message);
    if (!items[start] || !items.slice(start).some(calls)) return undefined;
    const said = new Set(keys.slice(start));
    return this.#usedLast(scope).find(({ tip }) => {
      // Of nearly all the end is another one.
      if (!said.has(tip.key)) return false;
      let from = tip;
      while (from.parent && from.key !== keys[start]) from = from.parent;
      if (from.depth < 2 || from === tip) return false;
      return chainTo(tip).slice(from.depth - 1).every(({ key }, at) => key === keys[start + at]);
    });
  }

  /**
   * The session whose newest turn was broken off, if a user goes on from one of its steps: the client hadn't written down
   * those behind it, and forgets them.
   */
  #brokenOff({ items }: Recognised, { sessionId, depth }: ChainNode): GatewaySession | undefined {
    const said = items.slice(depth).flatMap(({ parts }) => parts.map(({ message: { role } }) => role));
    if (depth <= countInstructions(items) || said.at(-1) !== "user" || said.includes("assistant")) {
      return undefined;
    }
    const session = this.held.get(sessionId ?? "");
    return session?.isAmidTurnBehind(items.slice(0, depth)) ? session : undefined;
  }

  /** The session whose turn came last of those in a scope. */
  #newest(scope: string): GatewaySession | undefined {
    return this.held.get(this.#index.find(scope, []).sessionId ?? "");
  }

  /** Names the items; the instructions that stand in front however they change. */
  #keysOf({ scope, items }: Recognised): string[] {
    const heads = countInstructions(items);
    return items.map((item, at) => at < heads ? this.#instructions.keyOf(scope, item) : item.key);
  }

  /** The same; nothing is remembered of the instructions. */
  #peekKeys({ scope, items }: Recognised): string[] {
    const heads = countInstructions(items);
    return items.map((item, at) => at < heads ? this.#instructions.peek(scope, item) : item.key);
  }

  /**
   * Returns the session whose newest history ends at a node, or else in front of it, behind the instructions: a job whose
   * replies are those of an equal job before goes along that one's history, and is no fork of it.
   */
  #endingAt(node: ChainNode, heads: number): GatewaySession | undefined {
    for (let at: ChainNode | undefined = node; at && (at === node || at.depth > heads); at = at.parent) {
      const session = this.held.find(at.sessionId ?? "");
      if (session?.tip === at) return session;
    }
    return undefined;
  }

  /** The session of another scope of the same client whose whole conversation this one goes on from. */
  #elsewhere({ client, scope, items }: Recognised, keys: readonly string[]): About | undefined {
    if (client === undefined) return undefined;
    const heads = countInstructions(items);
    let looked = 0;
    for (const session of this.held.values()) {
      if (session.facts.client !== client || session.facts.scope === scope) continue;
      const { depth, key } = session.tip;
      const isAlike = key === keys[depth - 1] && session.facts.isAnswered;
      if (isAlike && sharedLength(tipOf(session), keys, heads) === depth) return { session, shared: depth };
      if (++looked === QUOTABLE_SESSIONS) return undefined;
    }
    return undefined;
  }

  #usedLast(scope: string): GatewaySession[] {
    const used: GatewaySession[] = [];
    for (const session of this.held.values()) {
      if (session.facts.scope === scope && used.push(session) === QUOTABLE_SESSIONS) break;
    }
    return used;
  }

  #named(name: string | undefined): GatewaySession | undefined {
    return name === undefined ? undefined : this.held.get(this.#names.get(name) ?? "");
  }

  #begin(recognised: Recognised, tip: ChainNode): GatewaySession {
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
      tip,
      facts: {
        ...{ scope, client, by, name: recognised.name, protocol, agent, basis, control },
        ...{ startedMs: nowMs, lastMs: nowMs, historyBytes: 0, heads: 0, hasTools: false, isAnswered: false },
        ...{ refusals: 0, isReverted: false, responses: [], compactions: [] },
      },
    });
    if (name !== undefined) this.#names.set(name, id);
    return session;
  }

  #forget(session: GatewaySession): void {
    const { id, tip } = session;
    const name = nameOf(session.facts);
    this.#index.release(tip, id);
    if (name !== undefined && this.#names.get(name) === id) this.#names.delete(name);
  }
}

function tipOf({ tip, facts: { heads } }: GatewaySession) {
  return { tip, heads };
}

function nameOf({ scope, name }: Pick<Recognised, "scope" | "name">): string | undefined {
  return name === undefined ? undefined : `${scope} ${name}`;
}

/** A number from 0 to 1 that is always the same for the same text. */
function share(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
