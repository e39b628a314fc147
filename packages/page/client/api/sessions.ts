import type { Sums } from "@tare/session/internal/report";
import type { Body, EventOf, Told } from "../../../server/client.ts";

type Listed = Told<"GET /sessions">["sessions"][number];

export type OwnSession = Extract<Listed, { readonly kind: "agent" }>;

/** A session of another agent, whose model calls go through the gateway. */
export type PassingSession = Extract<Listed, { readonly kind: "gateway" }>;

export type SessionWithMessages = Extract<Told<"GET /sessions/{id}">, { readonly kind: "agent" }>;

/** What a turn or a session may cost, as far as people say it here. */
export type TurnBudget = Omit<NonNullable<Body<"POST /sessions/{id}/turns">["budget"]>, "maxTokenUnits">;

export type WaitingCall = SessionWithMessages["approvals"][number];

/** Everything that happens in a session. */
export type TalkEvent = EventOf<"GET /sessions/{id}/events">;

/** What a session is called: what somebody named it, what was said first, or when it was made. */
export function titleOf({ title, createdAt }: Pick<OwnSession, "title" | "createdAt">): string {
  return title.trim() || `Session of ${new Date(createdAt).toLocaleString("en-GB", DATE)}`;
}

/** What a session of the gateway is called: what was said first, or its model and when it began. */
export function passingTitleOf({ title, model, createdAt }: PassingSession): string {
  return title.trim() || `${model}, ${new Date(createdAt).toLocaleString("en-GB")}`;
}

/** What stands above each view of a session: what it is called, and what it has cost. */
export interface Head {
  readonly title: string;
  readonly model: string;
  /** How much that shall reason; nothing if it is as it likes. */
  readonly effort?: string | undefined;
  /** The program whose loop it is, if that isn't this server's. */
  readonly agent: string | null;
  /** The session that it goes on from; nothing if it doesn't. */
  readonly forkedFrom?: string | undefined;
  readonly sums: Sums;
  /** Tokens of its newest prompt, and how much that may hold; nothing where that isn't known. */
  readonly prompt: { readonly tokens: number; readonly windowTokens: number | null } | null;
}

/** What stands above each view of a session. */
export function headOf(session: Told<"GET /sessions/{id}">): Head {
  const { model, prompt } = session;
  if (session.kind === "agent") {
    const { effort, forkedFrom, sums } = session;
    return {
      title: titleOf(session),
      model,
      effort,
      agent: null,
      forkedFrom: forkedFrom?.session,
      sums,
      prompt,
    };
  }
  return { title: passingTitleOf(session), model, agent: session.agent, sums: session, prompt };
}

const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
