import { createHash } from "node:crypto";
import type { Message } from "@tare/messages";
import { type Edit, NEW_SESSION, type Planner, type PlannerState } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { ChainIndex, type ChainNode } from "./chain_index.ts";
import type { GatewayArchive, GatewaySession, HiddenPieces } from "./session.ts";

/** What a session is recognised by. */
export interface Recognised {
  /** Keeps apart histories that must never meet: clients, formats. */
  readonly scope: string;
  /** The client's name for the session. Default: it is recognised by content. */
  readonly name?: string;
  /** The client's messages, each named by its bytes. */
  readonly keys: readonly string[];
  /** The messages themselves. */
  readonly messages: readonly Message[];
}

/** What a session's planner goes by. */
export type PlannedSession = Pick<GatewaySession, "archive" | "control" | "recall" | "reverted">;

/** How sessions are kept. */
export interface GatewaySessionsOptions {
  /** Makes the planner of a session that goes on from a state. */
  readonly planner: (session: PlannedSession, state: PlannerState) => Planner;
  /** Share of sessions, from 0 to 1, that are left as they are. */
  readonly control: number;
  /** Told of each session that isn't a fork of another. */
  readonly begun: (session: GatewaySession) => void;
  /** Most sessions. Default: 1,000. */
  readonly maxSessions?: number;
  /** Most messages of all histories together. Default: 500,000. */
  readonly maxMessages?: number;
  /** Most UTF-16 code units of archived originals. Default: 128 Mi. */
  readonly maxArchivedChars?: number;
}

/**
 * The conversations that pass through the gateway, in memory. Those used longest ago are forgotten first; one that was
 * forgotten is seen as new, and costs what a new one costs.
 */
export class GatewaySessions {
  readonly #options: GatewaySessionsOptions;
  readonly #index = new ChainIndex();
  /** By id, in order of their last use. */
  readonly #sessions = new Map<string, GatewaySession>();
  /** Ids by the names that clients gave. */
  readonly #names = new Map<string, string>();
  /** How many sessions share an archive. */
  readonly #shared = new Map<GatewayArchive, number>();

  /** No session yet. */
  constructor(options: GatewaySessionsOptions) {
    this.#options = options;
  }

  /** How many are known. */
  get size(): number {
    return this.#sessions.size;
  }

  /** The session that goes on with this request: a known one, a fork of one, or a new one. */
  find(request: Recognised): GatewaySession {
    const { scope, name, keys, messages } = request;
    const node = this.#index.find(name === undefined ? scope : `${scope} ${name}`, keys);
    const named = name === undefined
      ? undefined
      : this.#sessions.get(this.#names.get(`${scope} ${name}`) ?? "");
    const known = named ?? (node.sessionId === undefined ? undefined : this.#sessions.get(node.sessionId));
    const instructions = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
    let session: GatewaySession;
    if (known && known.tip === node) session = known;
    else if (named) session = this.#rollBack(named, node);
    // Instructions alone don't make a conversation: sub-agents share theirs.
    else if (known && node.depth > (instructions < 0 ? keys.length : instructions)) {
      session = this.#fork(known, node);
    } else session = this.#begin(request, node);
    const before = session.tip;
    session.tip = this.#index.claim(node, keys.slice(node.depth), session.id);
    if (named) this.#index.release(before, session.id, node);
    this.#sessions.delete(session.id);
    this.#sessions.set(session.id, session);
    this.#evict();
    return session;
  }

  #begin({ scope, name, keys, messages }: Recognised, tip: ChainNode): GatewaySession {
    const opening = keys[Math.max(0, messages.findIndex(({ role }) => role === "user"))] ?? "";
    const session = this.#make({
      id: crypto.randomUUID(),
      control: share(`${scope} ${name ?? opening}`) < this.#options.control,
      archive: countingArchive(),
      recall: false,
      reverted: false,
      tip,
    }, NEW_SESSION);
    if (name !== undefined) this.#names.set(`${scope} ${name}`, session.id);
    this.#options.begun(session);
    return session;
  }

  /** A new session with what the other had at this place. Copies are made when either writes: all is immutable. */
  #fork(from: GatewaySession, node: ChainNode): GatewaySession {
    const { archive, control, recall, reverted, epoch, planner } = from;
    const state = { ...planner.state, paid: 0, resend: 0, stopped: false };
    const id = crypto.randomUUID();
    const session = this.#make({ id, archive, control, recall, reverted, tip: node }, state);
    return Object.assign(session, { epoch, ...cutBack(from, node.depth) });
  }

  #rollBack(session: GatewaySession, { depth }: ChainNode): GatewaySession {
    return Object.assign(session, cutBack(session, depth));
  }

  #make(given: PlannedSession & Pick<GatewaySession, "id" | "tip">, state: PlannerState): GatewaySession {
    this.#shared.set(given.archive, (this.#shared.get(given.archive) ?? 0) + 1);
    return {
      ...given,
      planner: this.#options.planner(given, state),
      edits: [],
      hidden: [],
      epoch: 0,
      planning: Promise.resolve(),
    };
  }

  #evict(): void {
    const { maxSessions = 1_000, maxMessages = 500_000, maxArchivedChars = 128 * 2 ** 20 } = this.#options;
    const chars = () => this.#shared.keys().reduce((sum, archive) => sum + archive.chars, 0);
    for (const session of this.#sessions.values()) {
      const fits = this.#sessions.size <= maxSessions && this.#index.size <= maxMessages &&
        chars() <= maxArchivedChars;
      if (fits || this.#sessions.size === 1) break;
      this.#forget(session);
    }
  }

  #forget(session: GatewaySession): void {
    this.#sessions.delete(session.id);
    this.#index.release(session.tip, session.id);
    for (const [name, id] of this.#names) if (id === session.id) this.#names.delete(name);
    const users = (this.#shared.get(session.archive) ?? 1) - 1;
    if (users > 0) this.#shared.set(session.archive, users);
    else this.#shared.delete(session.archive);
  }
}

/** What holds for the first `depth` messages of the client's history. */
function cutBack(
  { edits, hidden }: GatewaySession,
  depth: number,
): { readonly edits: readonly Edit[]; readonly hidden: readonly HiddenPieces[] } {
  const kept = hidden.filter(({ after }) => after <= depth);
  // What is hidden behind the very last message isn't in the upstream's prompt yet.
  const inside = kept.filter(({ after }) => after < depth);
  const length = inside.reduce(
    (sum, { pieces, replaces }) => sum + pieces.length - (replaces ? 1 : 0),
    depth,
  );
  return {
    hidden: kept,
    edits: edits.filter((edit) =>
      edit.type === "compact" || (edit.type === "elide" ? edit.index < length : edit.to <= length)
    ),
  };
}

function countingArchive(): GatewayArchive {
  const contents = new Map<string, string>();
  const archive = memoryArchive(contents);
  let chars = 0;
  return {
    get chars() {
      return chars;
    },
    async put(content) {
      const before = contents.size;
      const ref = await archive.put(content);
      if (contents.size > before) chars += content.length;
      return ref;
    },
    get: archive.get,
    delete: archive.delete,
  };
}

/** A number from 0 to 1 that is always the same for the same text. */
function share(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}
