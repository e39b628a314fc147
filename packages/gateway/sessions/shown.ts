import { reportPins, sumsOf } from "@tare/session/internal/report";
import type { Turns } from "../turns.ts";
import {
  type ConversationDetails,
  type Conversations,
  type ConversationSummary,
  type ShownConversation,
  spendingOf,
} from "./conversations.ts";
import type { GatewaySession, SessionSummary } from "./session.ts";

/** The sessions of a gateway, as they are shown. */
export function conversationsOf(sessions: Turns): Conversations {
  return {
    async list(listing) {
      const page = await sessions.list(listing);
      return page && { conversations: page.sessions.map(told), hasMore: page.hasMore };
    },
    spending: (which) => sessions.spending(which),
    newestSpending: async (which) => (await sessions.newest(which)).map(spendingOf),
    summary: (row) => told(sessions.known(row)),
    async get(id) {
      const session = await sessions.session(id);
      return session && shown(session, sessions);
    },
  };
}

function shown(session: GatewaySession, sessions: Turns): ShownConversation {
  const { id, conversation } = session;
  const { noPins } = conversation;
  const seen = () => conversation.see();
  return {
    id,
    by: session.facts.by,
    ...(noPins !== undefined && { noPins }),
    calls: () => sessions.calls(session),
    details: () => detailsOf(session, sessions.windowOf(session) ?? null),
    seen,
    async setPin(wanted, keep) {
      const now = await seen();
      const pin = conversation.makePin(now.history.messages, wanted);
      const report = reportPins({ ...now, pins: [pin] })[0]!;
      conversation.pin({ set: pin });
      await sessions.save(session, keep && (() => keep(report)));
      return report;
    },
    async removePin(place) {
      if (!conversation.state.pins.some((pin) => pin.place === place)) return false;
      conversation.pin({ remove: place });
      await sessions.save(session);
      return true;
    },
    async rename(title, keep) {
      session.rename(title);
      const renamed = told(session);
      await sessions.save(session, keep && (() => keep(renamed)));
      return renamed;
    },
    keepWarm: (ms) => sessions.keepFor(session, ms),
    archived: (ref) => session.archive.get(ref),
    forget: () => sessions.forget(session),
  };
}

function told({ id, facts, conversation: { state } }: SessionSummary): ConversationSummary {
  const { protocol, agent = null, by, startedMs, lastMs, control, isReverted } = facts;
  const { title, model, epoch, days, savedTokenUnits } = state;
  return {
    ...{
      id,
      ...(by !== undefined && { key: by }),
      title,
      protocol,
      model,
      agent,
      createdAt: time(startedMs),
      lastAt: time(lastMs),
      control,
    },
    ...{ reverted: isReverted, epoch, ...sumsOf.days(days), savedTokenUnits },
  };
}

function detailsOf(
  session: GatewaySession,
  windowTokens: number | null,
): ConversationDetails {
  const { archive, facts: { compactions }, conversation: { state: { figures, rewrites } } } = session;
  return {
    ...told(session),
    archiveBytes: archive.bytes,
    prompt: figures ? { tokens: figures.promptTokens, windowTokens, left: figures.saved } : null,
    rewrites: rewrites.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
    compactionCalls: compactions.map(({ atMs, ...rest }) => ({ at: time(atMs), ...rest })),
  };
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
