/** A JSON Schema, as a plain object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** How a tool is described to the model: the chat-completions wire format of a function tool. */
export interface ToolDefinition {
  /** Always `function`. */
  readonly type: "function";
  /** What the model is told of the function. */
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON Schema of the arguments; absent means that the tool takes none. */
    readonly parameters?: JsonSchema;
    readonly strict?: boolean | null;
  };
}

/** What a running tool is handed. */
export interface ToolContext {
  /** Aborted when the turn is cancelled or the call's time is up. */
  readonly signal: AbortSignal;
  /** Tells the caller's watchdog that the tool is alive. */
  readonly progress: () => void;
  /** Shows those who watch what a long call has given so far; the model sees the result alone. Default: nobody watches. */
  readonly output?: (text: string) => void;
  /** Id of the call, as its reply gives it. Absent outside a turn. */
  readonly callId?: string;
  /** Id of the conversation that it is made in, for what outlives a call. Absent where there is one alone. */
  readonly session?: string;
  /** Whether the model is shown pictures. Default: it isn't. */
  readonly seesPictures?: boolean;
  /**
   * Throws if the call isn't to be run any more, though it isn't told to stop yet: on a server that slept while another
   * one took over. A tool that has to prepare something asks right before it acts. Default: it may run.
   */
  readonly confirm?: () => void;
  /**
   * Whether a file may be read or written, or its name be shown, by its real path: a tool asks right before it does so.
   * Default: it may.
   */
  readonly allows?: (path: string, effect: "reads" | "writes" | "names") => boolean;
  /** Makes other calls of the same turn. Only a tool that {@linkcode Tool.replays} has it, and only inside a turn. */
  readonly calls?: {
    /** When the tool first ran for this call, in milliseconds since the epoch: the same each time that it runs again. */
    readonly beganAtMs: number;
    /**
     * Makes a call, as if the model had: by the same rules and limits. Never rejects. Nothing comes back where somebody has
     * to be asked first: once nothing else of the tool goes on, it is to stop and say that it `waits`, and is run again with
     * the answer.
     */
    call(name: string, args: unknown): Promise<NestedResult | undefined>;
  };
}

/** Calls that a running tool makes: what they return enters no prompt, unless the tool returns it. */
export type NestedCalls = NonNullable<ToolContext["calls"]>;

/** What a call that a tool made came to. */
export interface NestedResult {
  readonly content: string;
  readonly error: boolean;
}

/** What a call would touch, by real absolute paths: after all links, those to the workspace itself too. */
export interface Effects {
  /** The folder that relative paths count from. */
  readonly root: string;
  /** Files that it would open. */
  readonly reads?: readonly string[];
  /** Files that it would make or change. */
  readonly writes?: readonly string[];
  /** Files, and folders below which any file may be opened or named: each is judged when the tool comes to it. */
  readonly searches?: readonly string[];
}

/** What a call changes in a file, for people: no model sees it. */
export interface FileChange {
  /** From the workspace. */
  readonly path: string;
  /** How many lines come in, and how many go. */
  readonly added: number;
  readonly removed: number;
  /** A unified diff without the names of files, three lines around each change; of a long one the beginning. */
  readonly diff: string;
  /** How many lines of the diff are left out behind that, or cut. Absent: none. */
  readonly omitted?: number;
}

/**
 * What a tool hands back: the text for the model, or that text marked as an error. A tool may as well throw: the
 * thrown message becomes the text of an error result.
 */
export type ToolOutput = string | {
  readonly content: string;
  readonly error: boolean;
  /** What it has changed, where it can be shown. */
  readonly change?: FileChange | undefined;
  /** True if it stopped because calls that it made wait for somebody's answer: it is run again then. */
  readonly waits?: true;
  /** Pictures that the model is shown behind the text, as `data:` URLs. Only with {@linkcode ToolContext.seesPictures}. */
  readonly pictures?: readonly string[];
};

/** A tool that can be run. */
export interface Tool {
  /** The full definition; arguments are validated against its `parameters` before {@linkcode Tool.run}. */
  readonly definition: ToolDefinition;
  /**
   * What may happen to its results once they are old. Default: `once`.
   *
   * - `rederivable`: the call only reads; its result may be elided, and the call may be made again.
   * - `once`: the call has side effects, or its result changes from call to call; its result may be elided, but
   *   nothing ever suggests making the call again.
   * - `keep`: the result is never elided (answers of the user, instructions).
   */
  readonly stance?: "rederivable" | "once" | "keep";
  /** Name of the argument that says what a call reads, such as `path`: a later write to it makes the result stale. */
  readonly reads?: string;
  /** Name of the argument that says what a call writes. */
  readonly writes?: string;
  /**
   * Whether requests may go without its definition where there are many tools: the model knows it by its name and one
   * line, and sees the rest when it asks. Default: no.
   */
  readonly mayDefer?: boolean;
  /** What whoever serves it claims of it, such as that it only reads. Nothing goes by it: see `stance`. Default: nothing. */
  readonly hints?: JsonSchema;
  /** Longest time one call may take, in milliseconds. Default: the loop's. */
  readonly timeoutMs?: number;
  /**
   * True if it touches nothing but by calls of {@linkcode ToolContext.calls}, and makes the same ones when it gets the same
   * results in the same order: a call that was cut off is run again from its start, and of the calls that it made those
   * with a result aren't made again. Default: it doesn't.
   */
  readonly replays?: true;
  /**
   * Whether a call with these arguments can reach nothing but what the agent was given to work in, because what it runs is
   * kept in a sandbox: nobody need be asked for it. Default: it may reach anything.
   */
  isContained?(args: Readonly<Record<string, unknown>>): boolean;
  /**
   * Says which tool a call is for, where this one stands for others: that tool is run instead, with its own stance and
   * time limit. A problem is told to the model, and nothing is run. Default: this tool itself.
   */
  resolve?(args: Readonly<Record<string, unknown>>): ResolvedCall | { readonly problem: string };
  /**
   * Says what a call would touch, before anything of it runs. May throw where the call would be refused. Default: nobody
   * knows.
   */
  effects?(args: Readonly<Record<string, unknown>>): Promise<Effects>;
  /**
   * Says what a call would change if it ran now, or why it would fail, before somebody is asked for it. The problem is
   * told to the model, so nothing may stand in it that the model would have to ask for. Default: nobody knows.
   */
  preview?(
    args: Readonly<Record<string, unknown>>,
    context: ToolContext,
  ): Promise<FileChange | { readonly problem: string } | undefined>;
  /**
   * Clears away what a call with these arguments may have left in the middle of its work, as the process that it ran in has
   * ended: called before its turn goes on elsewhere or ends. Default: nothing is left.
   */
  clearUp?(
    args: Readonly<Record<string, unknown>>,
    context: Pick<ToolContext, "callId">,
  ): Promise<void>;
  /** Runs the tool with validated arguments. */
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool and what it is to be run with. */
export interface ResolvedCall {
  readonly tool: Tool;
  /** Valid by the tool's own definition. */
  readonly args: Readonly<Record<string, unknown>>;
}
