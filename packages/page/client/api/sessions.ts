import type { LoopEvent, TurnLedger } from "@tare/loop";
import type { Message } from "@tare/messages";

/** What a turn or a session may cost. */
export interface Budget {
  readonly maxSteps?: number;
  readonly maxTokens?: number;
  readonly maxCost?: number;
}

/** A session of the agent, as the server lists it. */
export interface Session {
  readonly id: string;
  readonly createdAt: string;
  readonly status: "idle" | "running";
  readonly instructions: string;
  readonly model: string;
  readonly tools: readonly string[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly budget: Budget;
  readonly turns: number;
  readonly lastEvent: number;
  readonly ledger: TurnLedger;
}

/** A session with what was said in the turns that have ended. */
export interface SessionWithMessages extends Session {
  readonly messages: readonly Message[];
}

/** Everything that happens in a session. */
export type SessionEvent = LoopEvent | { readonly type: "message_added"; readonly message: Message };

/** Longest title, in characters. */
const TITLE = 80;

/** What a session is called: what the page named it, or when it was made. */
export function titleOf({ metadata, createdAt }: Pick<Session, "metadata" | "createdAt">): string {
  return metadata.title?.trim() || `Session of ${new Date(createdAt).toLocaleString("en-GB", DATE)}`;
}

/** The name of a session that begins with this text: its first words. */
export function titleFrom(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length <= TITLE ? line : `${line.slice(0, TITLE - 1)}…`;
}

const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } as const;
