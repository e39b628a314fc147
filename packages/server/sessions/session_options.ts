import type { CacheKeepAlive, Keys, Store } from "@tare/session";
import type { Telemetry } from "@tare/session/telemetry";
import type { Clock, RunLimits } from "@tare/loop";
import type { CountTokens, Model, Tool } from "@tare/messages";
import type { Price, Profile } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { BackgroundCommands } from "@tare/tools/shell";
import type { Checkpoints } from "@tare/tools/undo";
import type { ApprovalRule } from "../approvals/rules.ts";
import type { ToolSource } from "../turns/session_tools.ts";

/** Options that the sessions of a server share. */
export interface SessionOptions {
  readonly store: Store;
  readonly models: ModelOptions;
  /** Tools that sessions may use, in addition to each session's own `recall`. */
  readonly tools: readonly Tool[];
  /** System message of sessions without their own. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string | undefined;
  /** Policy of prompt rewrites. Default: the planner. */
  readonly prompt?: PolicyOptions | undefined;
  /** Calls that need approval. Default: all that aren't read-only. */
  readonly approvals?: ApprovalOptions | undefined;
  readonly limits?: ServerLimits | undefined;
  /** Folder that the tools work in. Default: none is described. */
  readonly workspace?: WorkspaceOptions | undefined;
  /** Keys that pay for the sessions that they create. Default: none. */
  readonly keys?: Pick<Keys, "budgetRefusal" | "paid" | "reserve"> | undefined;
  /** Records turns, model calls and tools. Default: nothing is recorded. */
  readonly telemetry?: Telemetry | undefined;
  /** Called with every error that clients don't receive. Default: such errors are dropped. */
  readonly onError?: ((error: unknown) => void) | undefined;
  readonly advanced?: AdvancedOptions | undefined;
}

/** The models that sessions may call, by name. */
export interface ModelOptions {
  /** Returns a model's port. It also summarizes old turns when other content than tool results fills the window. */
  readonly model: (name: string) => Model;
  /** Model of sessions that name none. Default: none, and no agent. */
  readonly defaultModel?: string | undefined;
  readonly profile: Profile | ((model: string) => Profile);
  /** Returns a model's price; `undefined` if it is unknown. Default: the list price, by name. */
  readonly price?: ((model: string) => Price | undefined) | undefined;
  readonly windowTokens: number | ((model: string) => number);
  /**
   * Returns whether a model's window is only assumed: then the provider decides whether a prompt is too long.
   * Default: false.
   */
  readonly assumesWindow?: ((model: string) => boolean) | undefined;
  readonly countTokens: () => Promise<CountTokens>;
  /** Returns the names of the provider's models. Default: unknown. */
  readonly list?: (() => Promise<readonly string[]>) | undefined;
  /** Returns the efforts that a model supports; `undefined` if the provider decides. Default: unknown. */
  readonly efforts?: ((model: string) => readonly string[] | undefined) | undefined;
  /** Reasoning effort of models that support it, unless a session has its own. Default: the model's own. */
  readonly effort?: string | undefined;
  /** Returns whether a model receives the images of results. Default: false. */
  readonly supportsImages?: ((model: string) => boolean) | undefined;
  /** Returns the address of a model, for telemetry. Default: unknown. */
  readonly address?: ((model: string) => string) | undefined;
  /** A sentence that every turn starts with, as a warning. Default: none. */
  readonly notice?: string | undefined;
}

/** Approval rules, and the handling of calls without an answer. */
export interface ApprovalOptions {
  /** Rules of all sessions. A session's own rules apply too, and the stricter wins. Default: none. */
  readonly rules?: readonly ApprovalRule[];
  /** Folder that the rules' paths are relative to. Default: the root. */
  readonly workspace?: string;
  /** Handling of calls that need approval if no user can give it. Default: `deny`. */
  readonly unattended?: "deny" | "allow";
  /** Time after which a call without an answer is denied, in milliseconds. Default: a day. */
  readonly answerWithinMs?: number;
  /**
   * Handling of a call that ran when its process ended, so that its outcome is unknown. `report`: the model is
   * notified. `ask`: the call needs approval to run again, if a user can give it. `repeat`: it runs again if its tool
   * is read-only or declares `idempotentHint`; else the model is notified. Default: `report`.
   */
  readonly unknownOutcome?: "report" | "ask" | "repeat";
}

/** Limits of sessions and turns. */
export interface ServerLimits {
  /** Most stored sessions, including chats. Default: 10,000. */
  readonly maxSessions?: number | undefined;
  /** Most turns that run at the same time. Default: 100. */
  readonly maxRunningTurns?: number | undefined;
  /** Most queued turns, over all servers of the store. Default: 1,000. */
  readonly maxQueuedTurns?: number | undefined;
  /** Limits of each turn. Default: the loop's own. */
  readonly turn?: RunLimits | undefined;
}

/** The folder that the tools work in. */
export interface WorkspaceOptions {
  /** The folder, as clients see it. Default: hidden. */
  readonly folder?: string | undefined;
  /** Sandbox of commands, as clients see it. Default: hidden. */
  readonly sandbox?: {
    readonly by?: string;
    readonly why?: string;
    readonly domains: readonly string[];
  } | undefined;
  /** Description of the folder for sessions with the server's own instructions. Default: none. */
  readonly place?: {
    /** Returns the text that follows the instructions of a new session; none if empty. */
    readonly describe: () => Promise<string>;
    /** Returns the changes since these system messages; `undefined` if there are none. */
    readonly changes: (events: readonly string[]) => Promise<string | undefined>;
  } | undefined;
  /** Record of turns' file changes, which can be undone. Default: none. */
  readonly checkpoints?: Omit<Checkpoints, "close"> | undefined;
  /** Commands that continue between turns. Default: none. */
  readonly background?: Pick<BackgroundCommands, "news" | "end"> | undefined;
}

/** Description of the environment that sessions work in. */
export type EnvironmentDescription = NonNullable<WorkspaceOptions["place"]>;

/** Options that few servers need. */
export interface AdvancedOptions {
  /** Source of more tools, read for each turn. Default: none. */
  readonly toolSource?: ToolSource | undefined;
  /** Whether sessions that name no tools have subagents too. Default: no, as each subagent uses the whole prompt. */
  readonly delegates?: boolean | undefined;
  /**
   * Cache keep-alive of waiting sessions' prompts; it is closed with the sessions. `off`: none. Default: only during
   * a turn.
   */
  readonly keepAlive?: CacheKeepAlive | "off" | undefined;
  /** Time of the loop. Default: the real time. */
  readonly clock?: Clock | undefined;
  /** Timer: calls back after `ms` milliseconds; returns a function that cancels it. Default: the real time. */
  readonly after?: ((ms: number, work: () => void) => () => void) | undefined;
}

/** Options of a server's shutdown. */
export interface CloseOptions {
  /**
   * Time that running steps have to end, in milliseconds. Their turns then continue in the next process that has the
   * store, or calls `attend()`. Default: turns end immediately as interrupted, and can be continued.
   */
  readonly leaveWithinMs?: number | undefined;
}
