import type { TurnLedger } from "@tare/loop";
import type { Message, Tool } from "@tare/messages";
import type { Archive } from "@tare/prune";
import type { EventLog } from "./event_log.ts";
import type { CreateSession } from "./request_schemas.ts";
import type { SessionContext } from "./session_context.ts";

/** A conversation with the agent, and all that belongs to it. */
export interface Session {
  /** Name in every route. */
  readonly id: string;
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** What it was made with, defaults filled in. */
  readonly settings: Required<CreateSession>;
  /** The tools that the model is offered. */
  readonly tools: readonly Tool[];
  /** Everything that happened. */
  readonly events: EventLog;
  /** Originals of what left the prompt. */
  readonly archive: Archive;
  /** Decides what the model sees of the history. */
  readonly context: SessionContext;
  /** What was said in the turns that have ended, the system message first. Append-only. */
  history: readonly Message[];
  /** What all its turns cost. */
  ledger: TurnLedger;
  /** Turns that have ended. */
  turns: number;
  /** The turn that runs now. */
  running?: RunningTurn;
}

/** A turn that runs. */
export interface RunningTurn {
  /** Ends the turn soon. */
  readonly cancel: () => void;
  /** Settles when the turn has ended; never rejects. */
  readonly done: Promise<void>;
}

/** A session as its clients see it. */
export interface SessionBody extends Required<CreateSession> {
  /** Name in every route. */
  readonly id: string;
  /** When it was made, as an ISO 8601 time. */
  readonly created_at: string;
  /** Whether a turn runs. */
  readonly status: "idle" | "running";
  /** Turns that have ended. */
  readonly turns: number;
  /** Number of the newest event. */
  readonly last_event: number;
  /** What all its turns cost. */
  readonly ledger: TurnLedger;
}

/** What clients are told of a session. */
export function sessionBody(session: Session): SessionBody {
  return {
    id: session.id,
    created_at: new Date(session.createdAtMs).toISOString(),
    status: session.running ? "running" : "idle",
    ...session.settings,
    turns: session.turns,
    last_event: session.events.last,
    ledger: session.ledger,
  };
}
