import { type Clock, EMPTY_LEDGER, type RunOptions, type TurnLedger } from "@tare/loop";
import type {
  Content,
  CountTokens,
  Message,
  Model,
  ModelSettings,
  Tool,
  ToolDefinition,
  ToolMessage,
} from "@tare/messages";
import { listPrice, type Price, type Profile, providerOf, type Rates } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { Sums } from "@tare/conversation/report";
import type { SessionRecord, Store, StoreRecord } from "@tare/conversation";
import type { Telemetry } from "@tare/conversation/telemetry";
import { HttpError } from "../http/http_error.ts";
import type { ApprovalOptions } from "../approvals/approval_options.ts";
import type { WaitingTurn } from "../approvals/approvals.ts";
import type { Answered } from "../approvals/questions.ts";
import type { Session } from "./session.ts";
import type { Budget } from "../turns/budget.ts";
import type { Payer } from "../helpers/turn_account.ts";
import { type SessionSettings, storedHelper } from "./session_settings.ts";
import type { ToolSource } from "../turns/session_tools.ts";
import type { TurnSlots } from "../turns/turn_slots.ts";

/** What sessions share. */
export interface SessionOptions extends PolicyOptions {
  /** The provider's cache rules and prices, if need be by the model's name; asked whenever they count. */
  readonly profile: Profile | ((model: string) => Profile);
  /** What a model costs in money; nothing of one whose price isn't known. Default: the list price, by its name. */
  readonly price?: (model: string) => Price | undefined;
  /** The model's context window in tokens. */
  readonly windowTokens: number;
  /** The model port for a model's name. It also summarises old turns when the window is full of what isn't tool results. */
  readonly model: (name: string) => Model;
  /** Tools that sessions may use, beside `recall`, which each session gets for its own archive. */
  readonly tools: readonly Tool[];
  /** Where more tools come from, looked up anew for each turn. Default: nowhere. */
  readonly toolSource?: ToolSource;
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Where sessions are kept. */
  readonly store: Store;
  /** Limits of the loop. Default: the loop's own. */
  readonly limits?: Pick<
    RunOptions,
    "maxSteps" | "maxOutputTokens" | "maxParallelTools" | "toolTimeoutMs" | "idleTimeoutMs"
  >;
  /** What has to be asked for before it runs. Default: all that doesn't only read. */
  readonly approvals?: ApprovalOptions;
  /** A sentence that every turn starts with, as a warning. Default: none. */
  readonly notice?: string;
  /** Tells of turns, model calls and tools. Default: nobody does. */
  readonly telemetry?: Telemetry;
  /** Where a model is asked, which is told as well. Default: it isn't known. */
  readonly address?: (model: string) => string;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
  /** Tells turns how much time goes by. Default: the real time. */
  readonly clock?: Clock;
  /** Told of every error that clients don't get to read. Default: such errors are dropped. */
  readonly onError?: (error: unknown) => void;
}

/** The cache rules of a model, and what its calls cost. */
export function ratesOf(
  { profile, price = listPrice }: Pick<SessionOptions, "profile" | "price">,
  model: string,
): Rates & { readonly profile: Profile } {
  return { profile: typeof profile === "function" ? profile(model) : profile, price: price(model) };
}

/** What telemetry tells of a model that sessions ask. */
export function asked(options: SessionOptions, model: string): AskedModel {
  const address = options.address?.(model);
  const provider = providerOf(ratesOf(options, model).profile);
  return { provider, model, ...(address !== undefined && { address: new URL(address) }) };
}

/** A model, and who is asked for it. */
export interface AskedModel {
  /** The provider, as the conventions of telemetry name it. */
  readonly provider: string;
  readonly model: string;
  readonly address?: URL;
}

/** What a session works in. */
export interface SessionEnvironment extends SessionOptions {
  /** The turns that may run at once, over all sessions. */
  readonly slots: TurnSlots;
  /** Gives the session of this id. */
  readonly open: (id: string) => Promise<Session>;
  /** Commits so many new sessions, if that many more may be kept. */
  readonly admit: (count: number, commit: () => Promise<void>) => Promise<void>;
  /** Told when a session begins or ceases to do something, and when it is gone. */
  readonly changed: (session: Session) => void;
  /** Told of a session that others wait for and that couldn't be given back: it is to be tried again. Default: nobody is. */
  readonly unsettled?: (session: Session) => void;
  /** Told of each sentence for people. Default: nobody is. */
  readonly warned?: (sessionId: string, message: string) => void;
}

/** What a session is loaded with. */
export interface LoadedWith {
  readonly environment: SessionEnvironment;
  readonly countTokens: CountTokens;
  /** Number of its newest event. */
  readonly lastEvent: number;
}

/** What all turns of a session come to. */
export interface SessionTotals {
  readonly ledger: TurnLedger;
  /** How many have ended. */
  readonly turns: number;
  /** What calls came to, by the day of UTC, such as `2026-01-31`. */
  readonly days: Readonly<Record<string, Sums>>;
  /** The turn that goes on once what it asks is answered; absent if nothing is asked. */
  readonly asks?: WaitingTurn | undefined;
}

/** A session in which nothing has happened. */
export const NO_TURNS: SessionTotals = { turns: 0, ledger: EMPTY_LEDGER, days: {} };

/** Whose helper a session is. */
export interface HelperParent {
  /** Id of the session. */
  readonly session: string;
  /** Id of the call. */
  readonly call: string;
}

/** Whose helper a stored session is. */
export function parentOf({ parent, settings }: SessionRecord): HelperParent | undefined {
  return parent === undefined ? undefined : { session: parent, call: storedHelper(settings)?.call ?? "" };
}

/** What clients are told of a session. */
export interface SessionInfo extends Omit<SessionTotals, "days" | "asks"> {
  readonly id: string;
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  readonly settings: SessionSettings;
  /** The session whose helper it is, and the call that it was made for. Absent: it is nobody's helper. */
  readonly parent?: HelperParent | undefined;
  /** What the user said first, in one line; empty before. */
  readonly title: string;
  /** Number of the newest event. */
  readonly lastEvent: number;
  readonly isRunning: boolean;
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
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number | undefined;
  /**
   * Says that nobody can be asked before a call runs: what happens then is the server's setting, or it is no in any case.
   * Default: somebody can.
   */
  readonly unattended?: "by_setting" | "deny" | undefined;
  /** What was said to the questions of the last turn, which goes on. Default: none were asked. */
  readonly told?: readonly Answered[] | undefined;
  /** Gives back a slot that was taken for this turn. Default: one is taken. */
  readonly giveBack?: (() => void) | undefined;
  /** Records that are committed with the turn's start, or with the input if it steers. */
  readonly keep?: ((effect: "starts" | "steers") => readonly StoreRecord[]) | undefined;
}

/** A turn that runs. */
export interface RunningTurn {
  /** Number of the last event before it. */
  readonly before: number;
  readonly cancel: () => void;
  /** Settles when it has ended; never rejects. */
  readonly done: Promise<TurnOutcome>;
}

/** All that was said in a session. */
export interface Transcript {
  /** The system message first. What a running turn has said so far is with it. */
  readonly messages: readonly Message[];
  /** The turn that runs; absent if none does. */
  readonly turn?: {
    /** Number of the last event before it. */
    readonly after: number;
    /** Index of its first message. */
    readonly firstMessage: number;
    /** The model call that it is at, from 1. */
    readonly step: number;
    /** What its steps cost that have ended. */
    readonly ledger: TurnLedger;
  };
}

/** What is known once a turn has ended. */
export interface TurnOutcome {
  /** How many messages the session's history has then. */
  readonly messages: number;
  /** What was thrown, if the turn ended by an error; for a log, not for clients. */
  readonly error?: unknown;
}

/** The error for a session that isn't there. */
export function sessionNotFound(id: string): HttpError {
  return new HttpError(404, "not_found", `Cannot find session ${id}: there is no such session.`);
}

/** The error for a turn that is asked for while another one runs. */
export function turnRunning(id: string): HttpError {
  return new HttpError(
    409,
    "turn_running",
    `Cannot start a turn in session ${id}: one is running. Wait for its turn_end, cancel it, or send the input with ` +
      "steer.",
  );
}

/** The error for a turn that shall go on while its questions are open. */
export function stillAsked(id: string): HttpError {
  return new HttpError(
    409,
    "approval_open",
    `Cannot continue session ${id}: calls wait for an answer. Answer with POST /v1/sessions/${id}/approvals/{call}, ` +
      "or send an input, which denies them.",
  );
}

/** The error for a turn without an input where there is nothing to go on with. */
export function nothingToContinue(id: string): HttpError {
  return new HttpError(
    409,
    "nothing_to_continue",
    `Cannot continue session ${id}: the model has answered last. Send an input.`,
  );
}
