import type { LoopEvent, TurnLedger } from "@tare/loop";
import type { Message } from "@tare/messages";

/** What a turn or a session may cost. */
export interface Budget {
  readonly maxSteps?: number;
  readonly maxTokens?: number;
  readonly maxUsd?: number;
}

/** A session of the agent, as the server lists it. */
export interface Session {
  readonly id: string;
  readonly createdAt: string;
  readonly status: "idle" | "running";
  /** What the user said first, in one line. */
  readonly title: string;
  readonly instructions: string;
  readonly model: string;
  readonly tools: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly budget: Budget;
  /** Whose helper it is, and the call that it was made for; absent if it is nobody's. */
  readonly parent?: { readonly session: string; readonly call: string };
  readonly turns: number;
  readonly lastEvent: number;
  readonly ledger: TurnLedger;
}

/** A call that waits for somebody to say whether it may run. */
export interface Approval {
  readonly callId: string;
  readonly name: string;
  /** As JSON. */
  readonly arguments: string;
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** When it is denied if nobody answers, likewise. */
  readonly expiresAtMs: number;
}

/** What somebody said to that. */
export interface Answered {
  readonly type: "approval_answered";
  readonly id: string;
  readonly decision: "allow" | "deny";
  readonly reason?: string;
  readonly always?: true;
  readonly by: "person" | "time" | "message" | "cancel";
}

/** A session with all that was said. */
export interface SessionWithMessages extends Session {
  readonly messages: readonly Message[];
  /** The sessions of its helpers, by the ids of the calls that they were made for. */
  readonly helpers: readonly { readonly id: string; readonly session: string }[];
  readonly approvals: readonly Approval[];
  /** The turn that runs: the last event before it, and the index of its first message. */
  readonly turn?: { readonly after: number; readonly firstMessage: number };
}

/** Everything that happens in a session. */
export type SessionEvent =
  | LoopEvent
  | { readonly type: "message_added"; readonly message: Message }
  | { readonly type: "helper_started"; readonly id: string; readonly session: string }
  | Answered;

/** What a session is called: what its maker named it, what was said first, or when it was made. */
export function titleOf(
  { metadata, title, createdAt }: Pick<Session, "metadata" | "title" | "createdAt">,
): string {
  return metadata.title?.trim() || title.trim() ||
    `Session of ${new Date(createdAt).toLocaleString("en-GB", DATE)}`;
}

const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
