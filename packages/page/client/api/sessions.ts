import type { UsageTotals } from "@tare/session/internal/report";
import type { Body, EventOf, ResponseOf } from "../../../server/client.ts";

type Listed = ResponseOf<"GET /sessions">["sessions"][number];

export type OwnSession = Extract<Listed, { readonly kind: "agent" }>;

/** A session of another agent, whose model calls go through the gateway. */
export type GatewayRow = Extract<Listed, { readonly kind: "gateway" }>;

export type SessionWithMessages = Extract<ResponseOf<"GET /sessions/{id}">, { readonly kind: "agent" }>;

/** Limits of a turn or session that the page can set. */
export type TurnBudget = Omit<NonNullable<Body<"POST /sessions/{id}/turns">["budget"]>, "maxCostUnits">;

export type WaitingCall = SessionWithMessages["approvals"][number];

export type TalkEvent = EventOf<"GET /sessions/{id}/events">;

export function titleOf({ title, createdAt }: Pick<OwnSession, "title" | "createdAt">): string {
  return title.trim() || `Session of ${new Date(createdAt).toLocaleString("en-GB", DATE)}`;
}

export function gatewayTitleOf({ title, model, createdAt }: GatewayRow): string {
  return title.trim() || `${model}, ${new Date(createdAt).toLocaleString("en-GB")}`;
}

export interface Head {
  readonly title: string;
  readonly model: string;
  readonly effort?: string | undefined;
  /** Null for this server's agent. */
  readonly agent: string | null;
  readonly forkedFrom?: string | undefined;
  readonly totals: UsageTotals;
  /** Tokens of the newest prompt, and of the context window; null if unknown. */
  readonly prompt: { readonly tokens: number; readonly windowTokens: number | null } | null;
}

export function headOf(session: ResponseOf<"GET /sessions/{id}">): Head {
  const { model, prompt } = session;
  if (session.kind === "agent") {
    const { effort, forkedFrom, totals } = session;
    return {
      title: titleOf(session),
      model,
      effort,
      agent: null,
      forkedFrom: forkedFrom?.session,
      totals,
      prompt,
    };
  }
  return { title: gatewayTitleOf(session), model, agent: session.agent, totals: session, prompt };
}

const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
