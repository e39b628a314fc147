import type { TurnLedger } from "@tare/loop";
import type { Content, ContextHook, Message, Tool } from "@tare/messages";
import type { Conversation, PromptSession, Quote } from "@tare/planner";
import type { Archive } from "@tare/prune";
import type { SessionState } from "@tare/store";
import type { EventLog } from "./event_log.ts";
import type { RecoveryOptions } from "./recovery_events.ts";
import type { CreateSession } from "../api/request_schemas.ts";

/** What all turns of a session come to. */
export interface SessionTotals {
  /** What they cost. */
  readonly ledger: TurnLedger;
  /** How many have ended. */
  readonly turns: number;
}

/** What clients are told of a session. */
export interface SessionInfo extends SessionTotals {
  /** Name in every route. */
  readonly id: string;
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** What it was made with, defaults filled in. */
  readonly settings: Required<CreateSession>;
  /** Number of the newest event. */
  readonly lastEvent: number;
  /** The turn that runs now. */
  readonly running?: RunningTurn;
}

/** Decides what the model sees of one session, call by call. */
export interface SessionContext extends Pick<PromptSession, "state"> {
  /** The loop's hook. */
  readonly view: ContextHook;
  /** What a request for this conversation would cost. Absent where the policy knows nothing of costs. */
  readonly quote?: (conversation: Conversation) => Quote;
}

/** A conversation with the agent, and all that belongs to it, in memory while it is used. */
export interface Session extends SessionInfo {
  /** The tools that the model is offered. */
  readonly tools: readonly Tool[];
  /** Everything that happened. */
  readonly events: EventLog;
  /** Originals of what left the prompt. */
  readonly archive: Archive;
  /** What of the context's state has changed since it was last asked for: who asks must store it. */
  readonly unsaved: () => SessionState;
  /**
   * Takes from the store what is there, after something failed. A turn that has no end there is ended, by default as
   * interrupted. @throws {StoreError} if that can't be done.
   */
  readonly restore: (end?: RecoveryOptions["end"]) => void;
  /** Told when a turn has ended. */
  readonly released: () => void;
  /** Decides what the model sees of the history. */
  context: SessionContext;
  /** What was said in the turns that have ended, the system message first. Append-only. */
  history: readonly Message[];
  ledger: TurnLedger;
  turns: number;
  running?: RunningTurn;
}

/** A turn that runs. */
export interface RunningTurn {
  /** Ends the turn soon. */
  readonly cancel: () => void;
  /** Lets the user speak before the next model call. @throws {StoreError} if that can't be stored. */
  readonly steer: (input: Content) => void;
  /** Settles when the turn has ended; never rejects. */
  readonly done: Promise<void>;
}

/** A session as its clients see it. */
export interface SessionBody extends Required<CreateSession>, SessionTotals, Pick<SessionInfo, "id"> {
  /** When it was made, as an ISO 8601 time. */
  readonly created_at: string;
  /** Whether a turn runs. */
  readonly status: "idle" | "running";
  /** Number of the newest event. */
  readonly last_event: number;
}

/** The JSON that clients get of a session. */
export function sessionBody(session: SessionInfo): SessionBody {
  return {
    id: session.id,
    created_at: new Date(session.createdAtMs).toISOString(),
    status: session.running ? "running" : "idle",
    ...session.settings,
    turns: session.turns,
    last_event: session.lastEvent,
    ledger: session.ledger,
  };
}
