import { createHash } from "node:crypto";
import type { Rewrite } from "@tare/messages";
import type { Mechanisms } from "@tare/planner";
import { type About, Recognition, type RequestHistory } from "@tare/planner/internal";
import type { CacheKeepAlive } from "@tare/session";
import {
  HeldSessions,
  type ListedSession,
  type LoadedSession,
  Session,
  type SessionChange,
  type SessionContent,
  type SessionKind,
  type StoreRecord,
  type UnsummedSessions,
  WriteBehind,
  type WriteBehindOptions,
  type WrittenKind,
} from "@tare/session/internal";
import {
  addDays,
  addToDay,
  type CallReport,
  type Days,
  type PromptSnapshot,
  ReportedWarnings,
  type SessionGroup,
  type SpendingSession,
  type UsageTotals,
  usageTotals,
} from "@tare/session/internal/report";
import {
  countInstructions,
  historyItem,
  InstructionKeys,
  itemTexts,
  soughtNames,
  userSpoke,
} from "./history.ts";
import {
  type ClientSummary,
  type Compaction,
  GatewaySession,
  type GatewaySettings,
  type GatewayTotals,
  type Making,
  NEW_FACTS,
  type Recognized,
  SessionArchive,
} from "./session.ts";

/** A gateway session in a list. */
export interface GatewaySessionSummary extends UsageTotals {
  readonly kind: "gateway";
  readonly id: string;
  /** Name of its key. Absent: the owner's. */
  readonly key?: string;
  readonly title: string;
  readonly protocol: string;
  /** The model of the newest request. */
  readonly model: string;
  /** Name of the agent; null if its requests don't report it. */
  readonly agent: string | null;
  /** Times of its first and newest request. */
  readonly createdAt: string;
  readonly lastAt: string;
  /** Whether it is in the holdout: forwarded unchanged. */
  readonly holdout: boolean;
  /** Whether it is forwarded unchanged because the upstream refused edited requests. */
  readonly reverted: boolean;
  /** Number of rewrites of its prompt. */
  readonly epoch: number;
  /** Estimated saving in cost units. */
  readonly savedCostUnits: number;
}

/** A gateway session with its details. */
export interface GatewaySessionDetails extends GatewaySessionSummary {
  readonly archiveBytes: number;
  /**
   * The newest prompt: its tokens, the window if known, and the tokens that each mechanism removed. Null before the
   * first.
   */
  readonly prompt: {
    readonly tokens: number;
    readonly windowTokens: number | null;
    readonly evicted: Readonly<Record<keyof Mechanisms, number>>;
  } | null;
  /** The newest rewrites, the oldest first. */
  readonly rewrites: readonly (Rewrite & { readonly at: string })[];
  /** The client's newest compactions, the oldest first. */
  readonly compactionCalls: readonly (Omit<Compaction, "atMs"> & { readonly at: string })[];
}

export interface SessionsOptions {
  /** Share of sessions, from 0 to 1, that are forwarded unchanged, as a holdout. Default: 0. */
  readonly holdout?: number | undefined;
  /** Called with each session that continues from a summary with a new history. */
  readonly resumed?: (session: GatewaySession, summary: ClientSummary) => void;
  /** Memory of all sessions, in bytes. */
  readonly maxBytes: number;
  /** Storage of sessions. Default: none. */
  readonly storing?: WriteBehindOptions | undefined;
  /** Returns the parts for loading sessions of a protocol and client. Default: none is loaded. */
  readonly makingOf?: (protocol: string, client: string | undefined) => Promise<Making | undefined>;
  readonly restored?: (session: GatewaySession) => void;
  readonly keepAlive?: CacheKeepAlive | undefined;
  /** Returns the context window of a session's model, in tokens. Default: unknown. */
  readonly windowOf?: (session: GatewaySession) => number | undefined;
  readonly now?: () => number;
}

/**
 * The sessions of a gateway: recognition, memory, storage and reports. A session that is evicted and not stored is
 * recognized as a new one.
 */
export class GatewaySessions
  implements
    SessionKind<GatewaySession, GatewaySessionSummary, GatewaySessionDetails>,
    WrittenKind<GatewaySession> {
  readonly kind = "gateway";
  readonly store: WriteBehindOptions["store"] | undefined;
  readonly keepAlive: CacheKeepAlive | undefined;
  readonly warnings: ReportedWarnings = new ReportedWarnings();
  readonly held: HeldSessions<GatewaySession>;
  readonly #options: SessionsOptions;
  readonly #writer: WriteBehind<GatewaySession> | undefined;
  readonly #recognition = new Recognition<GatewaySession>();
  readonly #instructions = new InstructionKeys();
  readonly #names = new Map<string, string>();
  readonly #evicted = new Map<SessionGroup, { readonly sessions: number; readonly days: Days }>();

  constructor(options: SessionsOptions) {
    const { storing, keepAlive } = options;
    this.#options = options;
    this.store = storing?.store;
    this.keepAlive = keepAlive;
    this.held = new HeldSessions<GatewaySession>({
      maxWeight: options.maxBytes,
      weigh: ({ bytes }) => bytes,
      evicted: (session) => {
        this.#forget(session);
        const { group, session: { state, stored: { parent } } } = session;
        const { sessions, days } = this.#evicted.get(group) ?? { sessions: 0, days: {} };
        const isFork = parent !== undefined;
        this.#evicted.set(group, { sessions: sessions + (isFork ? 0 : 1), days: addDays(days, state.days) });
      },
    });
    this.#writer = storing && new WriteBehind<GatewaySession>(this, storing);
  }

  now(): number {
    return (this.#options.now ?? Date.now)();
  }

  find(id: string): GatewaySession | undefined {
    return this.held.find(id);
  }

  async open(id: string): Promise<GatewaySession | undefined> {
    if (!this.#writer) return this.find(id);
    return await this.#writer.open(id, async (loaded) => {
      const { protocol, client } = loaded.record.settings as GatewaySettings;
      const making = await this.#options.makingOf?.(protocol, client);
      if (!making || this.#takeIn(loaded, making)) return this.find(id);
      return this.find(id) ?? GatewaySession.restoreTotals(loaded, making);
    });
  }

  /** Loads the stored session of a request, unless the one in memory is the newest. Never rejects. */
  async inspect(
    recognized: Recognized,
    { follows, protocol, readers }: Pick<Making, "protocol" | "readers"> & {
      readonly follows: string | undefined;
    },
  ): Promise<void> {
    const { storing: { store, storesContent } = {} } = this.#options;
    if (!storesContent || !store?.shared && this.#knows(recognized)) return;
    const { client, countTokens, prompts } = recognized;
    await this.#writer?.loadNamed(soughtNames({ ...recognized, follows }), (all) => {
      for (const loaded of all) {
        const settings = loaded.record.settings as GatewaySettings | undefined;
        // A session of another protocol is another conversation.
        if (settings?.client !== client || settings?.protocol !== protocol.name) continue;
        this.#takeIn(loaded, { countTokens, prompts, protocol, readers });
      }
      // Another one may share more of the request.
      return follows !== undefined || this.#knows(recognized);
    });
  }

  /** Resolves when done, or after a short wait. Never rejects. */
  save(session: GatewaySession): Promise<void> | undefined {
    return this.#writer?.save(session);
  }

  /** Whether no other server has continued a session since it was last stored here. */
  async isNewest(session: GatewaySession): Promise<boolean> {
    return await this.#writer?.isNewest(session) ?? true;
  }

  /** Waits at most two seconds until all sessions are stored. Never rejects. */
  async close(): Promise<void> {
    await this.#writer?.close();
  }

  row(session: GatewaySession): ListedSession & { readonly totals: GatewayTotals } {
    const { id, facts, totals, session: { state: { title }, stored: { parent: forkOf } } } = session;
    const { startedMs: createdAtMs, protocol, agent, holdout, client, by } = facts;
    const settings: GatewaySettings = {
      ...{ protocol, ...(agent !== undefined && { agent }), holdout },
      ...(forkOf !== undefined && { forkOf }),
      // Without stored content the client must not be identifiable.
      ...(client !== undefined && this.#options.storing?.storesContent && { client }),
    };
    const record = { id, createdAtMs, settings, ...(by !== undefined && { by }) };
    return { ...record, kind: this.kind, lastEvent: 0, totals, title };
  }

  group({ group, facts: { agent } }: GatewaySession): ReturnType<WrittenKind<GatewaySession>["group"]> {
    return { group, agent: agent ?? null };
  }

  content(session: GatewaySession, named: unknown): SessionContent {
    const history = this.#recognition.stored(session);
    const keys = history.items.slice(0, session.facts.heads).map(({ exact }) => exact);
    const instructions = keys.flatMap((key) => this.#instructions.known(key) ?? []);
    return session.content({ history, instructions }, named);
  }

  unsaved(): readonly ListedSession[] {
    return Array.from(this.held.values())
      .filter(({ session: { stored: { fence } } }) => !this.#writer || fence === undefined)
      .sort((a, b) => b.number - a.number)
      .map((session) => this.row(session));
  }

  known(row: ListedSession): ListedSession {
    const session = this.find(row.id);
    return session && this.#writer?.isUpToDate(session) ? this.row(session) : row;
  }

  *unsummed(by?: string): Iterable<UnsummedSessions> {
    if (!this.#writer && by === undefined) {
      for (const [group, totals] of this.#evicted) yield { group, ...totals };
    }
    for (const session of this.held.values()) {
      const { facts, group, session: { state: { days }, stored: { parent } } } = session;
      if (by !== undefined && facts.by !== by) continue;
      const more = this.#writer
        ? this.#writer.unsummed(session)
        : { days, sessions: parent === undefined ? 1 : 0 };
      if (more) yield { group, ...more, row: this.row(session) };
    }
  }

  summary(
    { id, by, createdAtMs, title = "", settings, totals }: ListedSession,
  ): GatewaySessionSummary {
    const { protocol, agent = null, holdout } = settings as GatewaySettings;
    const { model, epoch, lastMs, isReverted, days, savedCostUnits } = totals as GatewayTotals;
    return {
      ...{ kind: this.kind, id, title: title as string, protocol, model, agent, holdout, epoch },
      ...(by !== undefined && { key: by }),
      ...{ createdAt: time(createdAtMs), lastAt: time(lastMs), reverted: isReverted },
      ...{ ...usageTotals.days(days), savedCostUnits },
    };
  }

  details(session: GatewaySession): Promise<GatewaySessionDetails> {
    const { archive, facts: { compactions }, session: { state: { metrics, rewrites } } } = session;
    const windowTokens = this.#options.windowOf?.(session) ?? null;
    return Promise.resolve({
      ...this.summary(this.row(session)),
      archiveBytes: archive.bytes,
      prompt: metrics ? { tokens: metrics.promptTokens, windowTokens, evicted: metrics.saved } : null,
      rewrites: rewrites.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
      compactionCalls: compactions.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
    });
  }

  spending({ settings, totals }: ListedSession): Pick<SpendingSession, "model" | "agent" | "days"> {
    const { agent = null } = settings as GatewaySettings;
    const { model, days } = totals as GatewayTotals;
    return { model, agent, days };
  }

  seen({ session }: GatewaySession): Promise<PromptSnapshot> {
    return session.see();
  }

  async calls(session: GatewaySession): Promise<readonly CallReport[]> {
    return await this.#writer?.calls(session) ?? session.session.calls;
  }

  async change(
    session: GatewaySession,
    change: SessionChange,
    records: () => readonly StoreRecord[],
  ): Promise<void> {
    if ("title" in change) session.rename(change.title);
    else session.session.pin(change.pins);
    await this.#writer?.save(session, records);
  }

  async delete(session: GatewaySession): Promise<void> {
    this.keepAlive?.forget(session.id);
    this.held.delete(session.id);
    await this.#writer?.delete(session);
  }

  /** Adds to the totals of an evicted session, at this time in milliseconds since the epoch. */
  addToEvicted(session: GatewaySession, more: Partial<UsageTotals>, atMs: number): void {
    const { group } = session;
    const evicted = this.#evicted.get(group);
    if (!evicted || this.isCurrent(session)) return;
    this.#evicted.set(group, { ...evicted, days: addToDay(evicted.days, more, { atMs, model: "" }) });
  }

  /** May evict others. */
  weigh(session: GatewaySession): void {
    if (this.isCurrent(session)) this.held.use(session);
  }

  /** A loaded session may have replaced it. */
  isCurrent(session: GatewaySession): boolean {
    return this.held.find(session.id) === session;
  }

  sessionOf(recognized: Recognized): GatewaySession {
    const { scope, items } = recognized;
    const history = this.#historyOf(recognized, { learns: true });
    const found = this.#recognition.recognize(history, this.#named(recognized));
    const session = found.type === "continue"
      ? found.known
      : found.type === "fork"
      ? found.known.fork(items.slice(0, found.at), { id: crypto.randomUUID(), scope })
      : this.#begin(recognized);
    let begunWith: ClientSummary | undefined;
    if (found.type === "continue") {
      session.continueFrom(items, found);
      if (found.how === "compacted") begunWith = session.facts.summary;
      // The earlier request was the first turn only if this history continues it with its reply.
      const isAnswered = found.how === "grown" && items.length > found.at;
      if (!session.isBegun && !isAnswered) session.begin(recognized);
    }
    session.continueWith(recognized, begunWith);
    if (begunWith) this.#options.resumed?.(session, begunWith);
    return this.#follow(session, history);
  }

  /**
   * Returns the session of a request that continues none and may be no turn, such as one for a title: one without
   * turns, by its key or the same request, or a new one. A later turn begins it.
   */
  precede(recognized: Recognized): GatewaySession {
    const history = this.#historyOf(recognized, { learns: true });
    const known = this.#recognition.preceding(history, this.#named(recognized));
    known?.begin(recognized);
    const session = known ?? this.#begin(recognized);
    session.precede(recognized);
    return this.#follow(session, history);
  }

  /** Returns the session that a request is about, such as one for a summary or title. Changes nothing. */
  about(recognized: Recognized): About<GatewaySession> | undefined {
    const history = this.#historyOf(recognized, { learns: false });
    return this.#recognition.about(history, this.#named(recognized));
  }

  /** Whether a session in memory ends where a request continues: otherwise the store may have a newer one. */
  #knows(recognized: Recognized): boolean {
    if (this.#named(recognized)) return true;
    const found = this.#recognition.recognize(this.#historyOf(recognized, { learns: false }));
    return found.type === "continue" && found.how !== "back" && found.how !== "compacted";
  }

  /** Replaces a session in memory by the loaded one, if that is newer. Returns whether it could be read. */
  #takeIn(loaded: LoadedSession, making: Making): boolean {
    const restored = GatewaySession.restore(loaded, making);
    const { record: { id }, stored: { fence } } = loaded;
    if (!restored || !this.#writer?.isStoredNewer({ id, fence })) return restored !== undefined;
    const { session, history, instructions } = restored;
    const before = this.find(id);
    if (before) this.#forget(before);
    for (const known of instructions) this.#instructions.learn(known);
    this.#recognition.restore(session, history, session.facts.lastMs);
    const name = nameOf(session.facts);
    if (name !== undefined) this.#names.set(name, id);
    this.held.use(session);
    this.#options.restored?.(session);
    return true;
  }

  #follow(session: GatewaySession, history: RequestHistory): GatewaySession {
    this.#recognition.follow(session, history, this.now());
    this.held.use(session);
    return session;
  }

  /** Returns the history of a request. `learns`: its instructions are stored. */
  #historyOf(recognized: Recognized, { learns }: { readonly learns: boolean }): RequestHistory {
    const { scope, client, isKeyed, items } = recognized;
    const heads = countInstructions(items);
    const keyOf = (at: number) =>
      learns ? this.#instructions.keyOf(scope, items[at]!) : this.#instructions.peek(scope, items[at]!);
    return {
      ...{ scope, client, isKeyed, name: recognized.name },
      items: items.map((item, at) =>
        at < heads ? { exact: keyOf(at), role: "instruction" } : historyItem(item)
      ),
      textsOf: (at) => itemTexts(items[at]!),
    };
  }

  #named(recognized: Recognized): GatewaySession | undefined {
    const name = nameOf(recognized);
    return name === undefined ? undefined : this.held.get(this.#names.get(name) ?? "");
  }

  #begin(recognized: Recognized): GatewaySession {
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
      isDryRun = false,
    } = recognized;
    const name = nameOf(recognized);
    const first = items[userSpoke(items)?.at ?? countInstructions(items)];
    const archive = new SessionArchive();
    // The holdout doesn't depend on whether a key's first request is a title or a turn.
    const drawn = name ?? (recognized.isKeyed ? scope : `${scope} ${first?.key ?? ""}`);
    const holdout = isDryRun || share(drawn) < (this.#options.holdout ?? 0);
    const nowMs = this.now();
    const id = crypto.randomUUID();
    const session = new GatewaySession({
      session: new Session({
        ...{ id, archive, countTokens },
        prompts: prompts({ archive, holdout, agent, basis }),
      }),
      archive,
      facts: {
        ...{ ...NEW_FACTS, scope, client, by, name: recognized.name, protocol, agent, basis, holdout },
        ...{ startedMs: nowMs, lastMs: nowMs },
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

function nameOf({ scope, name }: Pick<Recognized, "scope" | "name">): string | undefined {
  return name === undefined ? undefined : `${scope} ${name}`;
}

/** Returns a number from 0 to 1, derived from a text. */
function share(text: string): number {
  return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32;
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
