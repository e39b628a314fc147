import type { LoopEvent, PendingCall, TurnApprovals, TurnLedger } from "@tare/loop";
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
import type { CacheKeepAlive } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import type { Archive } from "@tare/prune";
import type { ToolOffer } from "../turns/session_tools.ts";
import type { SessionOptions } from "./session_options.ts";
import type { Budget, Chosen, SessionSettings, SubagentParent } from "./session_settings.ts";

export type { PinChange } from "@tare/session/internal";

export interface NotifiedSession {
  readonly id: string;
  readonly by: string | undefined;
  readonly parent: SubagentParent | undefined;
  readonly settings: SessionSettings;
}

export interface Notifier {
  /** Refreshes the list of webhooks. Called before a turn begins, so that no commit waits for it. Never rejects. */
  readonly refresh: () => Promise<void>;
  readonly hasWebhooks: () => boolean;
  readonly recordsOf: (
    session: NotifiedSession,
    committed: {
      readonly events: readonly SessionEvent[];
      readonly after: number;
      /** Their turn, with its id if it has one. Absent: there is none. */
      readonly turn?: { readonly id: string | undefined } | undefined;
    },
  ) => readonly StoreRecord[];
  readonly onError: (error: unknown) => void;
  readonly wake: () => void;
}

export interface SessionEnvironment extends SessionOptions {
  readonly ratesOf: (model: string) => Rates & { readonly profile: Profile };
  readonly windowOf: (model: string) => number;
  readonly notifier?: Notifier | undefined;
  readonly keepAlive: CacheKeepAlive | undefined;
  /**
   * Takes a slot for a turn; one that runs already gets one beyond the limit. Returns the function that frees it.
   * @throws {HttpError} 429, or 503 if the server is shutting down
   */
  readonly takeSlot: (of?: "running") => () => void;
  readonly isEnding: () => boolean;
  readonly open: (id: string) => Promise<PlayedSession>;
  readonly admit: (count: number, commit: () => Promise<void>) => Promise<void>;
  readonly changed: (session: WatchedSession) => void;
  /** Called with a session that other servers wait for and that could not be released. */
  readonly unsettled?: (session: WatchedSession) => void;
  readonly warned?: (sessionId: string, message: string) => void;
}

export interface SessionNeeds {
  readonly id: string;
  readonly by: string | undefined;
  readonly settings: SessionSettings;
  readonly tools: () => readonly Tool[];
  readonly archive: Archive;
  readonly environment: SessionEnvironment;
  readonly countTokens: CountTokens;
}

export interface WatchedSession {
  readonly id: string;
  readonly isPlayed: boolean;
  readonly isGone: boolean;
  readonly questions: readonly PendingApproval[];
  readonly queued: readonly { readonly id: string }[];
  readonly ready: () => Promise<void>;
}

interface PlayedSession {
  readonly tools: readonly Tool[];
  readonly start: (request: TurnRequest) => Promise<RunningTurn>;
  readonly events: { readonly read: (after: number) => AsyncIterable<NumberedEvent> };
}

export interface WaitingTurn {
  readonly untilMs: number;
  readonly budget?: Budget | undefined;
  readonly spent: TurnLedger;
}

export interface SessionTotals {
  readonly ledger: TurnLedger;
  readonly turns: number;
  readonly days: Days;
  readonly promptTokens?: number | undefined;
  /** Model and effort that were chosen since the creation; absent if none were. */
  readonly chosen?: Chosen | undefined;
  /** Part of the ledger that keep-alive requests between turns cost; absent if there were none. */
  readonly keepAliveLedger?: TurnLedger | undefined;
  readonly pendingApproval?: WaitingTurn | undefined;
}

export const OWN_AGENT = "tare";

export const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER, days: {} };

interface Payer extends Pick<TurnApprovals, "judge"> {
  readonly note: (ledger: TurnLedger) => void;
  readonly overBudget: () => string | undefined;
  /** Reserves the highest cost of a model call in the budgets of that turn. Returns the function that frees it. */
  readonly reserve: (
    most: TurnLedger,
    request: Pick<ModelRequest, "signal" | "progress">,
  ) => Promise<() => void>;
  readonly watch: (tool: Tool) => Tool;
}

/** A requested turn. Without an input it continues the last one. */
export interface TurnRequest {
  readonly input?: Content | undefined;
  /** Results of the calls that the last turn left to its client. A call without a result gets an error. */
  readonly results?: readonly ToolMessage[] | undefined;
  /** Tools that the client runs: a call of one ends the turn. Default: none. */
  readonly clientTools?: readonly ToolDefinition[] | undefined;
  readonly tools?: readonly Tool[] | undefined;
  readonly payer?: Payer | undefined;
  readonly settings?: ModelSettings | undefined;
  readonly budget?: Budget | undefined;
  /** Whether the first call evicts everything that may be evicted, at any cost. Default: evicts if it pays. */
  readonly evictNow?: boolean | undefined;
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number | undefined;
  /**
   * Handling of calls that need approval if no user can give it: by the server's setting, or denied. Default: a user
   * can approve.
   */
  readonly unattended?: "by_setting" | "deny" | undefined;
  readonly decisions?: readonly ApprovalAnswered[] | undefined;
  readonly id?: string | undefined;
  readonly giveBack?: (() => void) | undefined;
  /** Returns records that are committed with the turn's start, or with a steering input. */
  readonly keep?: ((effect: "starts" | "steers") => readonly StoreRecord[]) | undefined;
}

export interface StoredTurn
  extends Pick<TurnRequest, "settings" | "budget" | "maxOutputTokens" | "unattended"> {
  readonly spent?: TurnLedger | undefined;
  /** Whether it continues the session's last turn, which it is counted with. */
  readonly continues?: boolean | undefined;
}

export interface OpenTurn {
  readonly before: number;
  readonly request: StoredTurn;
  readonly resumed: Omit<ResumedTurn, "judge">;
  readonly events: readonly SessionEvent[];
}

export interface RunningTurn {
  readonly before: number;
  readonly cancel: () => void;
  /** Settles when it has ended; never rejects. */
  readonly done: Promise<TurnOutcome>;
}

interface TurnOutcome {
  readonly messages: number;
  readonly error?: unknown;
}

/** An event of a session: of a turn, or a message that was exchanged elsewhere before. */
export type SessionEvent =
  | LoopEvent
  /**
   * The history continues with this message, unchanged. Those after a turn's start, which describe tools and environment,
   * precede the turn's input.
   */
  | { readonly type: "message_added"; readonly message: Message }
  /**
   * Another process continues the turn. Its next model call is this step: discard earlier deltas of it, and of any step
   * without a reply.
   */
  | { readonly type: "turn_resumed"; readonly step: number }
  /** A subagent works for the call of this id, in a session of its own. */
  | { readonly type: "subagent_started"; readonly id: string; readonly session: string }
  /** An approval of the last turn was answered. */
  | {
    readonly type: "approval_answered";
    readonly approvalId: string;
    readonly id: string;
    readonly decision: "allow" | "deny";
    readonly reason?: string;
    /** True if calls like this one need no approval in this session any more. */
    readonly always?: true;
    /** Source of the decision: a user; the deadline; a message with which the user continued; or cancellation. */
    readonly by: "user" | "time" | "message" | "cancel";
    readonly key?: string;
  };

/** An event with its number in the session, from 1. */
export interface NumberedEvent {
  readonly number: number;
  readonly event: SessionEvent;
}

export interface PendingApproval extends PendingCall {
  /** Id that the server makes: a model may reuse the ids of calls. */
  readonly approvalId: string;
  readonly requestedAtMs: number;
  readonly expiresAtMs: number;
}

export type ApprovalAnswered = Extract<SessionEvent, { readonly type: "approval_answered" }>;

export type Answer = Omit<ApprovalAnswered, "type" | "approvalId" | "id">;

export interface TurnPrompt extends Pick<PromptSession, "view" | "sent"> {
  readonly offerTools: (tools: readonly Tool[], mayTell: boolean) => ToolOffer;
  /** Whether everything that a restart needs is stored. */
  readonly isStored: boolean;
  readonly cacheKey: (messages: readonly Message[]) => string;
  readonly rejected: (words: string, view: SessionView) => void;
}

export interface SubagentLink {
  readonly id: string;
  readonly session: string;
}
