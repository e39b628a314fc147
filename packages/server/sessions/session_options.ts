import type { Keys, Store, Warmth } from "@tare/session";
import type { Telemetry } from "@tare/session/telemetry";
import type { Clock, RunLimits } from "@tare/loop";
import type { CountTokens, Model, Tool } from "@tare/messages";
import type { Price, Profile } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import type { BackgroundCommands } from "@tare/tools/shell";
import type { Checkpoints } from "@tare/tools/undo";
import type { ApprovalRule } from "../approvals/rules.ts";
import type { ToolSource } from "../turns/session_tools.ts";

/** What the sessions of a server share. */
export interface SessionOptions {
  /** Store of the sessions. */
  readonly store: Store;
  /** Models that sessions may call. */
  readonly models: ModelOptions;
  /** Tools that sessions may use, in addition to `recall`, which each session gets for its own archive. */
  readonly tools: readonly Tool[];
  /** System message of sessions that bring none. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string | undefined;
  /** When and how prompts are rewritten. Default: by the planner. */
  readonly prompt?: PolicyOptions | undefined;
  /** Which calls need approval. Default: all that don't only read. */
  readonly approvals?: ApprovalOptions | undefined;
  /** Most that sessions and turns may take. */
  readonly limits?: ServerLimits | undefined;
  /** Folder that the tools work in. Default: sessions are told of none. */
  readonly workspace?: WorkspaceOptions | undefined;
  /** Keys that pay for the sessions made with them. Default: nobody pays. */
  readonly keys?: Pick<Keys, "spent" | "paid" | "reserve"> | undefined;
  /** Records turns, model calls and tools. Default: nothing is recorded. */
  readonly telemetry?: Telemetry | undefined;
  /** Called with every error that clients don't get to read. Default: such errors are dropped. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** What few servers need. */
  readonly advanced?: AdvancedOptions | undefined;
}

/** The models that sessions may call, by their names. */
export interface ModelOptions {
  /** Returns a model's port. It also summarizes old turns when the window is full of what isn't tool results. */
  readonly model: (name: string) => Model;
  /** Model of sessions that name none. Default: there is none, and so no agent. */
  readonly defaultModel?: string | undefined;
  /** The provider's cache rules and prices; looked up whenever they count. */
  readonly profile: Profile | ((model: string) => Profile);
  /** Returns a model's price; `undefined` if it is unknown. Default: the list price, by its name. */
  readonly price?: ((model: string) => Price | undefined) | undefined;
  /** The context window in tokens; looked up whenever it counts. */
  readonly windowTokens: number | ((model: string) => number);
  /** Whether a model's window is only assumed: then the provider is called before a prompt is refused. Default: none is. */
  readonly assumesWindow?: ((model: string) => boolean) | undefined;
  /** Returns the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Returns the efforts that a model knows; `undefined` if they are unknown, and its provider will report. Default: unknown. */
  readonly efforts?: ((model: string) => readonly string[] | undefined) | undefined;
  /** Reasoning effort of models that know it, unless a session has its own. Default: the model's own. */
  readonly effort?: string | undefined;
  /** Whether a model receives the images of results. Default: none does. */
  readonly seesPictures?: ((model: string) => boolean) | undefined;
  /** Returns the address that a model is called at, for telemetry. Default: it is unknown. */
  readonly address?: ((model: string) => string) | undefined;
  /** A sentence that every turn starts with, as a warning. Default: none. */
  readonly notice?: string | undefined;
}

/** Which calls need approval before they run, and what happens without an answer. */
export interface ApprovalOptions {
  /** Rules for all sessions; each may have its own in addition, and the stricter wins. Default: none. */
  readonly rules?: readonly ApprovalRule[];
  /** Folder from which the rules' paths count. Default: the root. */
  readonly workspace?: string;
  /** What happens to calls that need approval where nobody can give it. Default: `deny`. */
  readonly unattended?: "deny" | "allow";
  /** Time after which a call without an answer is denied, in milliseconds. Default: a day. */
  readonly answerWithinMs?: number;
  /**
   * What becomes of a call that ran when its process ended, so that its outcome is unknown, as its turn continues. `tell`:
   * the model is told. `ask`: the call needs approval to be made once more, unless nobody can give it. `repeat`: it is made
   * once more if its tool only reads or declares (`idempotentHint`) that this does no harm, and else the model is told.
   * Default: `tell`.
   */
  readonly unknownOutcome?: "tell" | "ask" | "repeat";
}

/** Limits of sessions and turns. */
export interface ServerLimits {
  /** Most sessions stored, those of chats included. Default: 10,000. */
  readonly maxSessions?: number | undefined;
  /** Most turns that run at the same time. Default: 100. */
  readonly maxRunningTurns?: number | undefined;
  /** Most turns that wait, over all servers of the store. Default: 1,000. */
  readonly maxQueuedTurns?: number | undefined;
  /** Limits of each turn. Default: the loop's own. */
  readonly turn?: RunLimits | undefined;
}

/** The folder that the tools work in. */
export interface WorkspaceOptions {
  /** The folder, as clients see it. Default: they don't. */
  readonly folder?: string | undefined;
  /** What commands run in, as clients see it. Default: they don't. */
  readonly sandbox?: {
    /** Name of the program that makes the sandbox; absent if there is none. */
    readonly by?: string;
    /** Why there is none. */
    readonly why?: string;
    /** Hosts that commands reach without approval. */
    readonly domains: readonly string[];
  } | undefined;
  /** Text about the folder for sessions with the server's own instructions. Default: none. */
  readonly place?: {
    /** Returns what follows the instructions of a session that is made now, for as long as it lasts; nothing if empty. */
    readonly describe: () => Promise<string>;
    /** Returns what has changed since these system messages; `undefined` if nothing has. */
    readonly changes: (told: readonly string[]) => Promise<string | undefined>;
  } | undefined;
  /** Record of what turns change of files, which can be undone. Default: there is none. */
  readonly checkpoints?: Omit<Checkpoints, "close"> | undefined;
  /** Commands that continue between turns: their news, and their end with a session. Default: there are none. */
  readonly background?: Pick<BackgroundCommands, "news" | "end"> | undefined;
}

/** Text about the place that sessions work in. */
export type Workplace = NonNullable<WorkspaceOptions["place"]>;

/** Options of sessions that few servers need. */
export interface AdvancedOptions {
  /** Source of more tools, looked up anew for each turn. Default: there is none. */
  readonly toolSource?: ToolSource | undefined;
  /** Whether sessions that name no tools have subagents too. Default: no, as each works with the whole prompt. */
  readonly delegates?: boolean | undefined;
  /**
   * Keeps the newest prompt of each session in its provider's cache while the session waits; it is closed with the
   * sessions. `off`: nothing does. Default: only while a turn is under way.
   */
  readonly keepWarm?: Warmth | "off" | undefined;
  /** Time of the loop. Default: the real time. */
  readonly clock?: Clock | undefined;
  /** Calls back after so many milliseconds, until the function that it returns is called. Default: the real time. */
  readonly after?: ((ms: number, work: () => void) => () => void) | undefined;
}

/** How an agent server ends. */
export interface CloseOptions {
  /**
   * Time that the running steps have to end, in milliseconds: their turns then continue in the next process that has the
   * store, or calls `attend()`. Default: turns end at once, as interrupted, and can be continued.
   */
  readonly leaveWithinMs?: number | undefined;
}
