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

/** A session of which programs outside are notified. */
export interface NotifiedSession {
  readonly id: string;
  readonly by: string | undefined;
  readonly parent: HelperParent | undefined;
  readonly settings: SessionSettings;
}

/** Tells programs outside of what happens in sessions. */
export interface Teller {
  /**
   * Reads who is notified, if other servers may have changed that. Called before a turn begins, so that no commit waits for
   * it. Never rejects.
   */
  readonly refresh: () => Promise<void>;
  /** Whether anybody is notified, as of the last refresh. */
  readonly isHeard: () => boolean;
  readonly recordsOf: (
    session: NotifiedSession,
    committed: {
      readonly events: readonly SessionEvent[];
      readonly after: number;
      /** The turn that goes on with them, and its id if it has one. Absent: there is none. */
      readonly turn?: { readonly id: string | undefined } | undefined;
    },
  ) => readonly StoreRecord[];
  /** Called with errors that only notifications suffer from. */
  readonly onError: (error: unknown) => void;
  /** Such records were committed, or another server is gone that owed something. */
  readonly wake: () => void;
}

/** What a session works in. */
export interface SessionEnvironment extends SessionOptions {
  /** The cache rules of a model, and what its calls cost. */
  readonly ratesOf: (model: string) => Rates & { readonly profile: Profile };
  readonly windowOf: (model: string) => number;
  /** Tells programs outside of what is committed; nothing if none is told. */
  readonly teller?: Teller | undefined;
  /** What keeps prompts warm; nothing if nothing does. */
  readonly warmth: Warmth | undefined;
  /**
   * Takes one of the turns that may run at once, over all sessions, or one more for a turn that runs already; gives what
   * gives it back. @throws {HttpError} 429, or 503 if the server ends
   */
  readonly takeSlot: (of?: "running") => () => void;
  /** Whether the server ends: it goes on with no turns then. */
  readonly isEnding: () => boolean;
  /** Gives the session of this id, to play a turn in it. */
  readonly open: (id: string) => Promise<PlayedSession>;
  /** Commits so many new sessions, if that many more may be kept. */
  readonly admit: (count: number, commit: () => Promise<void>) => Promise<void>;
  /** Told when a session begins or ceases to do something, and when it is gone. */
  readonly changed: (session: WatchedSession) => void;
  /** Told of a session that others wait for and that couldn't be given back: it is to be tried again. Default: nobody is. */
  readonly unsettled?: (session: WatchedSession) => void;
  /** Told of each sentence for people. Default: nobody is. */
  readonly warned?: (sessionId: string, message: string) => void;
}

/** What a session is made of. */
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

/** A session as who keeps track of all sees it. */
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

/** A turn that goes on once what it asks is answered. */
export interface WaitingTurn {
  /** When the time for an answer is over, in milliseconds since the epoch. */
  readonly untilMs: number;
  /** What the turn may cost. */
  readonly budget?: Budget | undefined;
  readonly spent: TurnLedger;
}

/** What all turns of a session come to. */
export interface SessionTotals {
  readonly ledger: TurnLedger;
  readonly turns: number;
  readonly days: Days;
  /** Tokens of the newest call's prompt; absent before the first. */
  readonly promptTokens?: number | undefined;
  /** The model and effort that somebody chose in place of those that it was made with; absent if nobody has. */
  readonly chosen?: Chosen | undefined;
  /** Of the ledger, what pings cost while no turn ran; absent if there were none. */
  readonly pinged?: TurnLedger | undefined;
  /** The turn that goes on once what it asks is answered; absent if nothing is asked. */
  readonly asks?: WaitingTurn | undefined;
}

/** Name of this agent among those whose calls pass through. */
export const OWN_AGENT = "tare";

/** A session in which nothing has happened. */
export const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER, days: {} };

/** The turn that a helper works for. */
interface Payer extends Pick<TurnApprovals, "judge"> {
  readonly note: (ledger: TurnLedger) => void;
  /** Says which budget of that turn is used up; nothing while there is room. */
  readonly overBudget: () => string | undefined;
  /** Sets aside from the budgets of that turn what a model call costs at most; gives what gives it back. */
  readonly reserve: (
    most: TurnLedger,
    request: Pick<ModelRequest, "signal" | "progress">,
  ) => Promise<() => void>;
  /** The same tool, whose changes of files count as that turn's. */
  readonly watch: (tool: Tool) => Tool;
}

/** A turn that is asked for. Without an input it goes on where the last one stopped. */
export interface TurnRequest {
  readonly input?: Content | undefined;
  /** What came of the calls that the last turn left to its client. A call that isn't among them gets an error. */
  readonly results?: readonly ToolMessage[] | undefined;
  /** Tools that the client runs: a call of one ends the turn. Default: none. */
  readonly clientTools?: readonly ToolDefinition[] | undefined;
  /** The tools of this turn, in place of the session's own. */
  readonly tools?: readonly Tool[] | undefined;
  /** The turn that pays for this one. Default: none. */
  readonly payer?: Payer | undefined;
  /** How the model shall write. Default: as the provider likes. */
  readonly settings?: ModelSettings | undefined;
  /** What this turn may cost. Default: no limit of its own. */
  readonly budget?: Budget | undefined;
  /** Whether all that may leave the prompt leaves with its first call, whatever that costs. Default: what pays. */
  readonly leavesNow?: boolean | undefined;
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number | undefined;
  /**
   * Says that nobody can be asked before a call runs: what happens then is the server's setting, or it is no in any case.
   * Default: somebody can.
   */
  readonly unattended?: "by_setting" | "deny" | undefined;
  /** What was said to the questions of the last turn, which goes on. Default: none were asked. */
  readonly told?: readonly ApprovalAnswered[] | undefined;
  /** Of a turn that has waited: its id there. Default: it hasn't. */
  readonly id?: string | undefined;
  /** Gives back a slot that was taken for this turn. Default: one is taken. */
  readonly giveBack?: (() => void) | undefined;
  /** Records that are committed with the turn's start, or with the input if it steers. */
  readonly keep?: ((effect: "starts" | "steers") => readonly StoreRecord[]) | undefined;
}

/** What a running turn was asked for, as another process needs it to go on with it. */
export interface StoredTurn
  extends Pick<TurnRequest, "settings" | "budget" | "maxOutputTokens" | "unattended"> {
  /** What it cost before it asked for an answer. */
  readonly spent?: TurnLedger | undefined;
}

/** A turn that another process left in its middle, as it goes on. */
export interface OpenTurn {
  readonly before: number;
  readonly asked: StoredTurn;
  readonly resumed: Omit<ResumedTurn, "judge">;
  /** What is to be stored before it goes on. */
  readonly events: readonly SessionEvent[];
}

/** A turn that runs. */
export interface RunningTurn {
  readonly before: number;
  readonly cancel: () => void;
  /** Settles when it has ended; never rejects. */
  readonly done: Promise<TurnOutcome>;
}

/** What is known once a turn has ended. */
interface TurnOutcome {
  readonly messages: number;
  /** What was thrown, if the turn ended by an error; for a log, not for clients. */
  readonly error?: unknown;
}

/** Everything that happens in a session: its turns, and the messages that were said elsewhere before. */
export type SessionEvent =
  | LoopEvent
  /**
   * The session goes on with this message, exactly as it is. Those behind a turn's start, which tell of tools and place, stand
   * in front of what opened the turn.
   */
  | { readonly type: "message_added"; readonly message: Message }
  /**
   * Another process goes on with the turn. Its next model call is this step: what was streamed of it before, or of one
   * that has no reply, counts no more.
   */
  | { readonly type: "turn_resumed"; readonly step: number }
  /** For the call of this id a helper works, in a session of its own. */
  | { readonly type: "helper_started"; readonly id: string; readonly session: string }
  /** Somebody has said whether a call may run that the last turn asked for. */
  | {
    readonly type: "approval_answered";
    readonly approvalId: string;
    readonly id: string;
    readonly decision: "allow" | "deny";
    readonly reason?: string;
    /** True if calls like this one need not be asked for in this session any more. */
    readonly always?: true;
    /** Who said so: a person; or the time was over, or the user went on with a message, or cancelled. */
    readonly by: "person" | "time" | "message" | "cancel";
    /** Of a person: the name of the key, `owner` for the owner's. */
    readonly key?: string;
  };

/** An event with its number in the session, from 1. */
export interface NumberedEvent {
  readonly number: number;
  readonly event: SessionEvent;
}

/** What somebody is asked: whether a call may run. */
export interface Question extends AskedCall {
  /** Its own id, which the server makes: a model may give several calls the same one. */
  readonly approvalId: string;
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** When the time for an answer is over, likewise. */
  readonly expiresAtMs: number;
}

/** What somebody said to a question, as an event. */
export type ApprovalAnswered = Extract<SessionEvent, { readonly type: "approval_answered" }>;

/** What somebody said to a question. */
export type Answer = Omit<ApprovalAnswered, "type" | "approvalId" | "id">;

/** What decides what the model sees of a turn. */
export interface TurnPrompt extends Pick<PromptSession, "view" | "sent"> {
  /** Says how the turn offers its tools. */
  readonly offerTools: (tools: readonly Tool[], mayTell: boolean) => ToolOffer;
  /** Whether all that a restart needs to know of it is stored. */
  readonly isStored: boolean;
  /** Names the conversation, which goes on with these messages, for caches that are found by a name. */
  readonly cacheKey: (messages: readonly Message[]) => string;
  /** Takes note of a call whose prompt the provider refused as too long, in these words. */
  readonly rejected: (words: string, view: SessionView) => void;
}

/** A helper of a session: which call it was made for, and the session that it works in. */
export interface HelperLink {
  readonly id: string;
  readonly session: string;
}
