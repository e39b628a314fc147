import type { AskedCall, LoopEvent, TurnApprovals, TurnLedger } from "@tare/loop";
import { EMPTY_LEDGER, type ResumedTurn } from "@tare/loop/internal";
import type {
  Content,
  CountTokens,
  Message,
  ModelRequest,
  ModelSettings,
  Tool,
  ToolDefinition,
  ToolMessage,
} from "@tare/messages";
import type { Profile, PromptSession, SessionView } from "@tare/planner";
import type { Rates } from "@tare/planner/internal/parts";
import type { Days } from "@tare/session/internal/report";
import type { Warmth } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import type { Archive } from "@tare/prune";
import type { ToolOffer } from "../turns/session_tools.ts";
import type { SessionOptions } from "./session_options.ts";
import type { Budget, Chosen, HelperParent, SessionSettings } from "./session_settings.ts";

export type { PinChange } from "@tare/session/internal";

/** A session of which other programs are notified. */
export interface NotifiedSession {
  readonly id: string;
  readonly by: string | undefined;
  readonly parent: HelperParent | undefined;
  readonly settings: SessionSettings;
}

/** Notifies other programs of what happens in sessions. */
export interface Teller {
  /**
   * Reads which programs are notified, if other servers may have changed that. Called before a turn begins, so that no
   * commit waits for it. Never rejects.
   */
  readonly refresh: () => Promise<void>;
  /** Returns whether any program is notified, as of the last refresh. */
  readonly isHeard: () => boolean;
  readonly recordsOf: (
    session: NotifiedSession,
    committed: {
      readonly events: readonly SessionEvent[];
      readonly after: number;
      /** The turn that they belong to, and its id if it has one. Absent: there is none. */
      readonly turn?: { readonly id: string | undefined } | undefined;
    },
  ) => readonly StoreRecord[];
  /** Called with errors that affect only notifications. */
  readonly onError: (error: unknown) => void;
  /** Called once such records were committed, or a server is gone that had notifications to send. */
  readonly wake: () => void;
}

/** The server of a session. */
export interface SessionEnvironment extends SessionOptions {
  /** Returns the cache rules and prices of a model. */
  readonly ratesOf: (model: string) => Rates & { readonly profile: Profile };
  readonly windowOf: (model: string) => number;
  /** Notifies other programs of commits. Default: none is notified. */
  readonly teller?: Teller | undefined;
  /** Cache keep-alive; `undefined` if there is none. */
  readonly warmth: Warmth | undefined;
  /**
   * Takes a slot of the turns that may run at once, over all sessions, or one more for a turn that runs already. Returns the
   * function that frees it. @throws {HttpError} 429, or 503 if the server is shutting down
   */
  readonly takeSlot: (of?: "running") => () => void;
  /** Returns whether the server is shutting down: it continues no turns then. */
  readonly isEnding: () => boolean;
  /** Returns the session of this id, to play a turn in it. */
  readonly open: (id: string) => Promise<PlayedSession>;
  /** Commits so many new sessions, if that many more may be stored. */
  readonly admit: (count: number, commit: () => Promise<void>) => Promise<void>;
  /** Called when a turn of a session begins or ends, and when the session is gone. */
  readonly changed: (session: WatchedSession) => void;
  /** Called with a session that other servers wait for and that could not be released: retry later. */
  readonly unsettled?: (session: WatchedSession) => void;
  /** Called with each warning for users. */
  readonly warned?: (sessionId: string, message: string) => void;
}

/** What the parts of a session share. */
export interface SessionNeeds {
  readonly id: string;
  /** Name of the key that pays for it. Absent: the owner's. */
  readonly by: string | undefined;
  readonly settings: SessionSettings;
  readonly tools: () => readonly Tool[];
  readonly archive: Archive;
  readonly environment: SessionEnvironment;
  readonly countTokens: CountTokens;
}

/** A session as the list of all reads it. */
export interface WatchedSession {
  readonly id: string;
  readonly isPlayed: boolean;
  readonly isGone: boolean;
  readonly questions: readonly Question[];
  readonly queued: readonly { readonly id: string }[];
  readonly ready: () => Promise<void>;
}

interface PlayedSession {
  readonly tools: readonly Tool[];
  readonly start: (request: TurnRequest) => Promise<RunningTurn>;
  readonly events: { readonly read: (after: number) => AsyncIterable<NumberedEvent> };
}

/** A turn that continues once its approvals are answered. */
export interface WaitingTurn {
  /** When the time for an answer ends, in milliseconds since the epoch. */
  readonly untilMs: number;
  /** What the turn may cost. */
  readonly budget?: Budget | undefined;
  readonly spent: TurnLedger;
}

/** Totals of all turns of a session. */
export interface SessionTotals {
  readonly ledger: TurnLedger;
  readonly turns: number;
  readonly days: Days;
  /** Tokens of the newest call's prompt; absent before the first. */
  readonly promptTokens?: number | undefined;
  /** Model and effort that were chosen in place of those it was created with; absent if none were. */
  readonly chosen?: Chosen | undefined;
  /** Of the ledger, the cost of keep-alive requests while no turn ran; absent if there were none. */
  readonly pinged?: TurnLedger | undefined;
  /** The turn that continues once its approvals are answered; absent if none is pending. */
  readonly asks?: WaitingTurn | undefined;
}

/** Name of this agent among the agents of a gateway. */
export const OWN_AGENT = "tare";

/** A session in which nothing has happened. */
export const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER, days: {} };

/** The turn that a subagent works for. */
interface Payer extends Pick<TurnApprovals, "judge"> {
  readonly note: (ledger: TurnLedger) => void;
  /** Returns which budget of that turn is used up; `undefined` while there is room. */
  readonly overBudget: () => string | undefined;
  /** Reserves the highest cost of a model call in the budgets of that turn. Returns the function that frees it. */
  readonly reserve: (
    most: TurnLedger,
    request: Pick<ModelRequest, "signal" | "progress">,
  ) => Promise<() => void>;
  /** Returns the same tool, whose changes of files count as that turn's. */
  readonly watch: (tool: Tool) => Tool;
}

/** A turn that is requested. Without an input it continues where the last one stopped. */
export interface TurnRequest {
  readonly input?: Content | undefined;
  /** Results of the calls that the last turn left to its client. A call without a result gets an error. */
  readonly results?: readonly ToolMessage[] | undefined;
  /** Tools that the client runs: a call of one ends the turn. Default: none. */
  readonly clientTools?: readonly ToolDefinition[] | undefined;
  /** The tools of this turn, in place of the session's own. */
  readonly tools?: readonly Tool[] | undefined;
  /** The turn that pays for this one. Default: none. */
  readonly payer?: Payer | undefined;
  /** Settings of the model. Default: the provider's own. */
  readonly settings?: ModelSettings | undefined;
  /** What this turn may cost. Default: no limit of its own. */
  readonly budget?: Budget | undefined;
  /** Whether everything that may be evicted is evicted with its first call, at any cost. Default: what pays. */
  readonly leavesNow?: boolean | undefined;
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number | undefined;
  /**
   * What happens to a call that needs approval, as no user can give it: by the server's setting, or denied in any case.
   * Default: a user can approve.
   */
  readonly unattended?: "by_setting" | "deny" | undefined;
  /** Answers to the approvals of the last turn, which continues. Default: none were pending. */
  readonly told?: readonly ApprovalAnswered[] | undefined;
  /** Id in the queue of a turn that has waited. Default: it hasn't. */
  readonly id?: string | undefined;
  /** Frees the slot that was taken for this turn. Default: one is taken. */
  readonly giveBack?: (() => void) | undefined;
  /** Records that are committed with the turn's start, or with the input if it steers. */
  readonly keep?: ((effect: "starts" | "steers") => readonly StoreRecord[]) | undefined;
}

/** The request of a running turn, as far as another process needs it to continue that. */
export interface StoredTurn
  extends Pick<TurnRequest, "settings" | "budget" | "maxOutputTokens" | "unattended"> {
  /** What it cost before it waited for approval. */
  readonly spent?: TurnLedger | undefined;
}

/** A turn that another process left in its middle, as it continues. */
export interface OpenTurn {
  readonly before: number;
  readonly asked: StoredTurn;
  readonly resumed: Omit<ResumedTurn, "judge">;
  /** Events to be committed before it continues. */
  readonly events: readonly SessionEvent[];
}

/** A turn that runs. */
export interface RunningTurn {
  readonly before: number;
  readonly cancel: () => void;
  /** Settles when it has ended; never rejects. */
  readonly done: Promise<TurnOutcome>;
}

/** How a turn has ended. */
interface TurnOutcome {
  readonly messages: number;
  /** The error that ended the turn, if one did; for a log, not for clients. */
  readonly error?: unknown;
}

/** Everything that happens in a session: its turns, and messages that were exchanged elsewhere before. */
export type SessionEvent =
  | LoopEvent
  /**
   * The history continues with this message, exactly as it is. Those after a turn's start, which describe tools and folder,
   * are before the input of the turn.
   */
  | { readonly type: "message_added"; readonly message: Message }
  /**
   * Another process continues the turn. Its next model call is this step: what was streamed of it before, or of one that
   * has no reply, is void.
   */
  | { readonly type: "turn_resumed"; readonly step: number }
  /** A subagent works for the call of this id, in a session of its own. */
  | { readonly type: "helper_started"; readonly id: string; readonly session: string }
  /** An approval of the last turn was answered. */
  | {
    readonly type: "approval_answered";
    readonly approvalId: string;
    readonly id: string;
    readonly decision: "allow" | "deny";
    readonly reason?: string;
    /** True if calls like this one need no approval in this session any more. */
    readonly always?: true;
    /** What decided: a user; the end of the time; a message with which the user continued; or cancellation. */
    readonly by: "person" | "time" | "message" | "cancel";
    /** Of a user: the name of the key, `owner` for the owner's. */
    readonly key?: string;
  };

/** An event with its number in the session, from 1. */
export interface NumberedEvent {
  readonly number: number;
  readonly event: SessionEvent;
}

/** A pending approval of a call. */
export interface Question extends AskedCall {
  /** Its own id, which the server makes: a model may give several calls the same one. */
  readonly approvalId: string;
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** When the time for an answer ends, likewise. */
  readonly expiresAtMs: number;
}

/** The answer to an approval, as an event. */
export type ApprovalAnswered = Extract<SessionEvent, { readonly type: "approval_answered" }>;

/** The answer to an approval. */
export type Answer = Omit<ApprovalAnswered, "type" | "approvalId" | "id">;

/** The prompts of a turn. */
export interface TurnPrompt extends Pick<PromptSession, "view" | "sent"> {
  /** Returns how the turn offers its tools. */
  readonly offerTools: (tools: readonly Tool[], mayTell: boolean) => ToolOffer;
  /** Whether everything that a restart needs is stored. */
  readonly isStored: boolean;
  /** Returns the cache key of the conversation of which these are the messages so far. */
  readonly cacheKey: (messages: readonly Message[]) => string;
  /** Records that the provider refused a prompt as too long, in these words. */
  readonly rejected: (words: string, view: SessionView) => void;
}

/** A subagent: the call that it was started for, and the session that it works in. */
export interface HelperLink {
  readonly id: string;
  readonly session: string;
}
