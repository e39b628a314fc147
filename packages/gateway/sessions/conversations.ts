import type { CountTokens, Rewrite } from "@tare/messages";
import { makePin, type NewPin, withoutPin, withPin } from "@tare/planner";
import {
  type CallReport,
  type PinReport,
  reportPins,
  type SeenConversation,
} from "@tare/conversation/report";
import type { Totals } from "../ledger.ts";
import type { GatewaySession } from "./session.ts";

/** What is told of a conversation in a list: what it is, and what it cost. */
export interface ConversationSummary extends Totals {
  readonly id: string;
  /** What the user said first, in one line. */
  readonly title: string;
  /** Name of its protocol. */
  readonly protocol: string;
  /** The model that was asked last. */
  readonly model: string;
  /** When its first request came, and its newest one. */
  readonly createdAt: string;
  readonly lastAt: string;
  /** Whether it is left as it is, to compare with; likewise because the upstream refused what was made of it. */
  readonly control: boolean;
  readonly reverted: boolean;
  /** How many times its prompt was rewritten. */
  readonly epoch: number;
  /** Token units that it has saved so far. */
  readonly savedTokenUnits: number;
}

/** What is told of one conversation. */
export interface ConversationDetails extends ConversationSummary {
  /** What its archive takes. */
  readonly archiveBytes: number;
  /** Tokens of the newest view, and what left it by each mechanism; null before there is one. */
  readonly prompt: {
    readonly tokens: number;
    readonly left: Readonly<Record<"context" | "prune" | "schemas" | "truncate", number>>;
  } | null;
  /** The newest changes of what its model sees, the oldest first. */
  readonly rewrites: readonly (Rewrite & { readonly at: string })[];
  /** The newest calls by which its client had it summed up, the oldest first. */
  readonly compactionCalls: readonly (
    & Pick<Totals, "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits" | "usd">
    & { readonly at: string }
  )[];
}

/** A conversation that passes through the gateway, as it is shown to people, and what they may ask of it. */
export interface ShownConversation {
  readonly id: string;
  readonly title: string;
  /** When its first request came, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** The newest calls that succeeded, the oldest first. */
  readonly calls: readonly CallReport[];
  /** Why nothing can be asked for of its messages; absent if it can. */
  readonly noPins?: string;
  readonly summary: () => ConversationSummary;
  readonly details: () => ConversationDetails;
  /** What its model saw last. */
  readonly seen: () => Promise<SeenConversation>;
  /** Asks for something of a message. @throws {RangeError} if that can't be asked for of this one. */
  readonly setPin: (wanted: NewPin) => Promise<PinReport>;
  /** Asks for nothing more of a message. Gives whether anything was asked for. */
  readonly removePin: (place: number) => Promise<boolean>;
  /** The original of what left its prompt; nothing if nothing is archived under this reference. */
  readonly archived: (ref: string) => Promise<string | undefined>;
  /** Forgets what is known of it. What its client still says is a new conversation. @throws {StoreError} */
  readonly forget: () => Promise<void>;
}

/** The conversations of a gateway. */
export interface Conversations {
  /** All that are known, the newest first, or with the same time the one that was known last. */
  readonly list: () => readonly ShownConversation[];
  /** The one of this id, if it is known. */
  readonly get: (id: string) => ShownConversation | undefined;
}

/** What conversations are shown from. */
export interface ShownSessions {
  /** All that are known, the newest first. */
  readonly sessions: () => readonly GatewaySession[];
  /** The one of this id, if it is known. */
  readonly session: (id: string) => GatewaySession | undefined;
  readonly countTokens: () => Promise<CountTokens>;
  /** Told of a session in which something was asked for. */
  readonly changed: (session: GatewaySession) => Promise<void>;
  /** Forgets a session. */
  readonly forget: (session: GatewaySession) => Promise<void>;
}

/** The sessions of a gateway, as they are shown. */
export function conversationsOf(options: ShownSessions): Conversations {
  const { sessions, session: find } = options;
  return {
    list: () =>
      sessions().toSorted((a, b) => b.startedMs - a.startedMs).map((session) => shown(session, options)),
    get(id) {
      const session = find(id);
      return session && shown(session, options);
    },
  };
}

const NOTHING_SEEN: Pick<SeenConversation, "history" | "view"> = {
  history: { messages: [], tools: [] },
  view: { messages: [], tools: [], places: [] },
};

function shown(
  session: GatewaySession,
  { countTokens, changed, forget }: ShownSessions,
): ShownConversation {
  const { id, title, startedMs, calls, prompts: { noPins } } = session;
  const seen = async (): Promise<SeenConversation> => ({
    ...(session.seen ?? NOTHING_SEEN),
    pins: session.pins,
    countTokens: await countTokens(),
  });
  return {
    id,
    title,
    createdAtMs: startedMs,
    calls,
    ...(noPins !== undefined && { noPins }),
    summary: () => summaryOf(session),
    details: () => detailsOf(session),
    seen,
    async setPin(wanted) {
      const now = await seen();
      const pin = makePin(now.history.messages, wanted, now.countTokens);
      session.pins = withPin(session.pins, pin);
      await changed(session);
      return reportPins({ ...now, pins: [pin] })[0]!;
    },
    async removePin(place) {
      const rest = withoutPin(session.pins, place);
      if (rest.length === session.pins.length) return false;
      session.pins = rest;
      await changed(session);
      return true;
    },
    archived: (ref) => session.archive.get(ref),
    forget: () => forget(session),
  };
}

function summaryOf(session: GatewaySession): ConversationSummary {
  const { id, title, protocol, model, startedMs, lastMs, control, isReverted, epoch, totals } = session;
  return {
    ...{ id, title, protocol, model, createdAt: time(startedMs), lastAt: time(lastMs), control },
    ...{ reverted: isReverted, epoch, ...totals, savedTokenUnits: session.savedTokenUnits },
  };
}

function detailsOf(session: GatewaySession): ConversationDetails {
  const { archive, figures, rewrites, compactions } = session;
  return {
    ...summaryOf(session),
    archiveBytes: archive.bytes,
    prompt: figures ? { tokens: figures.promptTokens, left: figures.saved } : null,
    rewrites: rewrites.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
    compactionCalls: compactions.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
  };
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
