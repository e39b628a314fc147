import type { Warmth } from "@tare/session";
import type {
  ListedSession,
  SessionChange,
  SessionKind,
  StoreRecord,
  UnsummedSessions,
} from "@tare/session/internal";
import {
  type CallReport,
  type SeenSession,
  type SpendingSession,
  type Sums,
  sumsOf,
  ToldWarnings,
} from "@tare/session/internal/report";
import type { Rewrite } from "@tare/messages";
import type { Mechanisms } from "@tare/planner";
import type { Keeper } from "../kept/keeper.ts";
import { keptRecord, type KeptSettings, type KeptTotals, totalsOf } from "../kept/kept_session.ts";
import type { Compaction, GatewaySession } from "./session.ts";
import type { GatewaySessions } from "./sessions.ts";

/** A session of another agent in a list. */
export interface GatewaySessionSummary extends Sums {
  readonly kind: "gateway";
  readonly id: string;
  /** Name of the key with which it was begun. Absent: the owner's. */
  readonly key?: string;
  /** What the user said first, in one line. */
  readonly title: string;
  /** Name of its protocol. */
  readonly protocol: string;
  /** The model that was requested last. */
  readonly model: string;
  /** Name of the program whose loop it is, as its requests report it; null if they don't. */
  readonly agent: string | null;
  /** When its first request came, and its newest one. */
  readonly createdAt: string;
  readonly lastAt: string;
  /** Whether it is forwarded unchanged, as part of the holdout. */
  readonly control: boolean;
  /** Whether it is forwarded unchanged because the upstream refused what was made of it. */
  readonly reverted: boolean;
  /** How many times its prompt was rewritten. */
  readonly epoch: number;
  /** Token units that it has saved so far. */
  readonly savedTokenUnits: number;
}

/** A session of another agent by itself. */
export interface GatewaySessionDetails extends GatewaySessionSummary {
  /** Size of its archive. */
  readonly archiveBytes: number;
  /** The newest prompt: its tokens, its limit if that is known, what each mechanism kept out of it. Null before the first. */
  readonly prompt: {
    readonly tokens: number;
    readonly windowTokens: number | null;
    readonly left: Readonly<Record<keyof Mechanisms, number>>;
  } | null;
  /** The newest changes of what its model sees, the oldest first. */
  readonly rewrites: readonly (Rewrite & { readonly at: string })[];
  /** The newest calls by which its client had it summarized, the oldest first. */
  readonly compactionCalls: readonly (Omit<Compaction, "atMs"> & { readonly at: string })[];
}

/** What the sessions of a gateway are registered with. */
export interface GatewayKindOptions {
  readonly sessions: GatewaySessions;
  /** Stores them. Absent: nothing does. */
  readonly keeper: Keeper | undefined;
  readonly warmth: Warmth | undefined;
  /** Returns how much a prompt of a session may hold, in tokens; `undefined` where that is unknown. */
  readonly windowOf: (session: GatewaySession) => number | undefined;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
}

/** The sessions of a gateway as a kind of the registry. */
export class GatewayKind
  implements SessionKind<GatewaySession, GatewaySessionSummary, GatewaySessionDetails> {
  readonly kind = "gateway";
  readonly store: Keeper["store"] | undefined;
  readonly warmth: Warmth | undefined;
  readonly warnings: ToldWarnings = new ToldWarnings();
  readonly #options: GatewayKindOptions;

  constructor(options: GatewayKindOptions) {
    this.#options = options;
    this.store = options.keeper?.store;
    this.warmth = options.warmth;
  }

  now(): number {
    return this.#options.now();
  }

  find(id: string): GatewaySession | undefined {
    return this.#options.sessions.held.find(id);
  }

  async open(id: string): Promise<GatewaySession | undefined> {
    const { keeper } = this.#options;
    return keeper ? await keeper.open(id) : this.find(id);
  }

  row(session: GatewaySession): ListedSession {
    const { title } = session.session.state;
    return { ...keptRecord(session, { isWhole: true }), lastEvent: 0, totals: totalsOf(session), title };
  }

  unsaved(): readonly ListedSession[] {
    const { sessions, keeper } = this.#options;
    return Array.from(sessions.held.values())
      .filter(({ kept: { fence } }) => !keeper || fence === undefined)
      .sort((a, b) => b.number - a.number)
      .map((session) => this.row(session));
  }

  known(row: ListedSession): ListedSession {
    const session = this.find(row.id);
    return session && this.#options.keeper?.isNewer(session) ? this.row(session) : row;
  }

  *unsummed(by?: string): Iterable<UnsummedSessions> {
    const { sessions, keeper } = this.#options;
    if (!keeper && by === undefined) yield* sessions.evicted;
    for (const session of sessions.held.values()) {
      const { facts, group, kept: { parent }, session: { state: { days } } } = session;
      if (by !== undefined && facts.by !== by) continue;
      const more = keeper ? keeper.unsummed(session) : { days, sessions: parent === undefined ? 1 : 0 };
      if (more) yield { group, ...more, row: this.row(session) };
    }
  }

  summary(
    { id, by, createdAtMs, title = "", settings, totals }: ListedSession,
  ): GatewaySessionSummary {
    const { protocol, agent = null, control } = settings as KeptSettings;
    const { model, epoch, lastMs, isReverted, days, savedTokenUnits } = totals as KeptTotals;
    return {
      ...{ kind: this.kind, id, title: title as string, protocol, model, agent, control, epoch },
      ...(by !== undefined && { key: by }),
      ...{ createdAt: time(createdAtMs), lastAt: time(lastMs), reverted: isReverted },
      ...{ ...sumsOf.days(days), savedTokenUnits },
    };
  }

  details(session: GatewaySession): Promise<GatewaySessionDetails> {
    const { archive, facts: { compactions }, session: { state: { figures, rewrites } } } = session;
    const windowTokens = this.#options.windowOf(session) ?? null;
    return Promise.resolve({
      ...this.summary(this.row(session)),
      archiveBytes: archive.bytes,
      prompt: figures ? { tokens: figures.promptTokens, windowTokens, left: figures.saved } : null,
      rewrites: rewrites.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
      compactionCalls: compactions.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
    });
  }

  spending({ settings, totals }: ListedSession): Pick<SpendingSession, "model" | "agent" | "days"> {
    const { agent = null } = settings as KeptSettings;
    const { model, days } = totals as KeptTotals;
    return { model, agent, days };
  }

  seen({ session }: GatewaySession): Promise<SeenSession> {
    return session.see();
  }

  async calls(session: GatewaySession): Promise<readonly CallReport[]> {
    return await this.#options.keeper?.calls(session) ?? session.session.calls;
  }

  async change(
    session: GatewaySession,
    change: SessionChange,
    records: () => readonly StoreRecord[],
  ): Promise<void> {
    if ("title" in change) session.rename(change.title);
    else session.session.pin(change.pins);
    await this.#options.keeper?.save(session, records);
  }

  async delete(session: GatewaySession): Promise<void> {
    const { sessions, keeper } = this.#options;
    this.warmth?.forget(session.id);
    sessions.held.delete(session.id);
    await keeper?.forget(session);
  }
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
