import type { Body, EventOf, Told } from "@tare/server/client";

type Listed = Told<"GET /v1/sessions">["sessions"][number];

/** A session of the agent, as the server lists it. */
export type AgentSession = Extract<Listed, { readonly kind: "agent" }>;

/** A session of another agent, whose model calls go through the gateway. */
export type PassingSession = Extract<Listed, { readonly kind: "gateway" }>;

/** A session of the agent with all that was said. */
export type SessionWithMessages = Extract<Told<"GET /v1/sessions/{id}">, { readonly kind: "agent" }>;

/** What a turn or a session may cost, as far as people say it here. */
export type TurnLimits = Omit<NonNullable<Body<"POST /v1/sessions/{id}/turns">["budget"]>, "maxTokenUnits">;

/** A call that waits for somebody to say whether it may run. */
export type WaitingCall = SessionWithMessages["approvals"][number];

/** Everything that happens in a session. */
export type TalkEvent = EventOf<"GET /v1/sessions/{id}/events">;

/** What a session is called: what its maker named it, what was said first, or when it was made. */
export function titleOf(
  { metadata, title, createdAt }: Pick<AgentSession, "metadata" | "title" | "createdAt">,
): string {
  return metadata.title?.trim() || title.trim() ||
    `Session of ${new Date(createdAt).toLocaleString("en-GB", DATE)}`;
}

const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
