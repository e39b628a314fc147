import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { ForkableSession } from "@tare/planner";
import type { WireItem } from "@tare/wire";
import { ChainIndex, type ChainNode } from "./chain_index.ts";
import { expandHidden } from "./hidden_items.ts";
import { LayeredArchive } from "./layered_archive.ts";
import { bytesOfSession, type GatewaySession } from "./session.ts";

/** What a session is recognised by. */
export interface Recognised {
  /** Keeps apart histories that must never meet: clients, protocols. */
  readonly scope: string;
  /** The client's name for the session. Default: it is recognised by content. */
  readonly name?: string | undefined;
  readonly items: readonly WireItem[];
}

/** How sessions are kept. */
export interface SessionsOptions {
  /** Decides what leaves the prompts of a new session. */
  readonly prompts: (session: Pick<GatewaySession, "archive" | "control">) => ForkableSession;
  /** Share of sessions, from 0 to 1, that are left as they are. Default: 0. */
  readonly control?: number | undefined;
  /** Told of each session that isn't a fork of another. */
  readonly begun: (session: GatewaySession) => void;
  /** Most bytes of memory that all may take together. */
  readonly maxBytes: number;
}

/**
 * The conversations that pass through the gateway, in memory. Those used longest ago are forgotten first; one that was
 * forgotten is seen as new, and costs what a new one costs.
 */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #index = new ChainIndex();
  /** An object of its own each time that a session is weighed: the cache weighs no value again. */
  readonly #sessions: LRUCache<string, { readonly session: GatewaySession }>;
  /** Ids by the names that clients gave. */
  readonly #names = new Map<string, string>();

  constructor(options: SessionsOptions) {
    this.#options = options;
    this.#sessions = new LRUCache({
      maxSize: options.maxBytes,
      sizeCalculation: ({ session }) => bytesOfSession(session),
      dispose: ({ session }) => this.#forget(session),
      noDisposeOnSet: true,
    });
  }

  /** How many are known. */
  get size(): number {
    return this.#sessions.size;
  }

  /** The session with this id, if it is still known. */
  get(id: string): GatewaySession | undefined {
    return this.#sessions.get(id)?.session;
  }

  /** A session has grown: others may have to go for it. */
  weigh(session: GatewaySession): void {
    if (this.#sessions.has(session.id)) this.#keep(session);
  }

  /** The session that goes on with this request: a known one, a fork of one, or a new one. */
  find({ scope, name: given, items }: Recognised): GatewaySession {
    const name = given === undefined ? undefined : `${scope} ${given}`;
    const keys = items.map(({ key }) => key);
    const node = this.#index.find(name ?? scope, keys);
    const named = name === undefined ? undefined : this.get(this.#names.get(name) ?? "");
    const known = named ?? this.get(node.sessionId ?? "");
    let session: GatewaySession;
    if (known && known.tip === node) session = known;
    else if (named) session = rollBack(named, items.slice(0, node.depth));
    // Instructions alone don't make a conversation: sub-agents share theirs.
    else if (known && node.depth > countInstructions(items)) {
      session = fork(known, items.slice(0, node.depth), node);
    } else {session = this.#begin({
        name,
        opening: name ?? `${scope} ${keys[openingOf(items)] ?? ""}`,
        tip: node,
      });}
    const before = session.tip;
    session.tip = this.#index.claim(node, keys.slice(node.depth), session.id);
    if (named) this.#index.release(before, session.id, node);
    session.historyBytes = items.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0);
    this.#keep(session);
    return session;
  }

  #keep(session: GatewaySession): void {
    this.#sessions.set(session.id, { session });
    // One that is larger than all may be isn't kept at all.
    if (!this.#sessions.has(session.id)) this.#forget(session);
  }

  #begin(
    { name, opening, tip }: Pick<GatewaySession, "name" | "tip"> & { readonly opening: string },
  ): GatewaySession {
    const archive = new LayeredArchive();
    const control = share(opening) < (this.#options.control ?? 0);
    const session: GatewaySession = {
      id: crypto.randomUUID(),
      name,
      control,
      archive,
      prompts: this.#options.prompts({ archive, control }),
      hidden: [],
      epoch: 0,
      saved: 0,
      isReverted: false,
      tip,
      historyBytes: 0,
    };
    if (name !== undefined) this.#names.set(name, session.id);
    this.#options.begun(session);
    return session;
  }

  #forget({ id, tip, name }: GatewaySession): void {
    this.#index.release(tip, id);
    if (name !== undefined && this.#names.get(name) === id) this.#names.delete(name);
  }
}

/** A new session with what the other had behind these items. What it archives from then on, the other doesn't see. */
function fork(from: GatewaySession, items: readonly WireItem[], tip: ChainNode): GatewaySession {
  const { hidden, length } = cutBack(from, items);
  const archive = from.archive.fork();
  const prompts = from.prompts.fork(length, archive);
  return {
    ...from,
    id: crypto.randomUUID(),
    name: undefined,
    archive,
    prompts,
    hidden,
    saved: 0,
    tip,
  };
}

function rollBack(session: GatewaySession, items: readonly WireItem[]): GatewaySession {
  const { hidden, length } = cutBack(session, items);
  session.prompts.cutBack(length);
  return Object.assign(session, { hidden });
}

/** What is hidden among these first items of a history, and how many messages the upstream sees of them. */
function cutBack({ hidden }: GatewaySession, items: readonly WireItem[]) {
  const kept = hidden.filter(({ after }) => after <= items.length);
  const expanded = expandHidden(items, kept).items;
  return { hidden: kept, length: expanded.reduce((sum, { parts }) => sum + parts.length, 0) };
}

function countInstructions(items: readonly WireItem[]): number {
  const first = items.findIndex(({ parts }) =>
    parts.some(({ message: { role } }) => role !== "system" && role !== "developer")
  );
  return first < 0 ? items.length : first;
}

/** Position of the first item in which a user says something. */
function openingOf(items: readonly WireItem[]): number {
  return Math.max(0, items.findIndex(({ parts }) => parts.some(({ message }) => message.role === "user")));
}

/** A number from 0 to 1 that is always the same for the same text. */
function share(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
