/** A JSON Schema, as a plain object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A tool definition in the chat-completions wire format of a function tool. */
export interface ToolDefinition {
  readonly type: "function";
  /** Function name, description and parameters. */
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON Schema of the arguments. Default: the tool takes none. */
    readonly parameters?: JsonSchema;
    readonly strict?: boolean | null;
  };
}

/** The context that a running tool receives. */
export interface ToolContext {
  /** Aborted when the turn is cancelled or the call times out. */
  readonly signal: AbortSignal;
  /** Resets the caller's watchdog. */
  readonly progress: () => void;
  /**
   * Publishes partial output of a long call to observers; the model sees only the result. Default: no
   * observers.
   */
  readonly output?: (text: string) => void;
  /** Id of the call, as in its reply. Absent outside a turn. */
  readonly callId?: string;
  /** Id of the call's conversation, for state that outlives a call. Absent where there is only one. */
  readonly session?: string;
  /** Whether the model reads images. Default: false. */
  readonly seesPictures?: boolean;
  /**
   * Throws if the call must not run any more although it isn't aborted, for example because another server
   * took the session over. Tools with preparations call it right before they act. Default: allowed.
   */
  readonly confirm?: () => void;
  /**
   * Returns whether a file may be read, written or named, by its real path; called right before each access.
   * Default: allowed.
   */
  readonly allows?: (path: string, effect: "reads" | "writes" | "names") => boolean;
  /** Calls other tools of the same turn. Only for tools with {@linkcode Tool.replays}, inside a turn. */
  readonly calls?: {
    /** First start of the call, in milliseconds since the epoch; the same at each replay. */
    readonly beganAtMs: number;
    /**
     * Makes a call as the model would, with the same rules and limits. Never rejects. Resolves to `undefined`
     * where an approval is pending: the tool then finishes its other work, returns `waits`, and is run again
     * with the answer.
     */
    call(name: string, args: unknown): Promise<NestedResult | undefined>;
  };
}

/** Calls of a running tool. Their results enter no prompt unless the tool returns them. */
export type NestedCalls = NonNullable<ToolContext["calls"]>;

/** Result of a nested call. */
export interface NestedResult {
  readonly content: string;
  readonly error: boolean;
}

/** Files that a call would access, by real absolute paths with all links resolved. */
export interface Effects {
  /** Base folder of relative paths. */
  readonly root: string;
  /** Files that it would read. */
  readonly reads?: readonly string[];
  /** Files that it would create or change. */
  readonly writes?: readonly string[];
  /** Files, and folders whose files may be read or named; each is checked when the tool reaches it. */
  readonly searches?: readonly string[];
}

/** A file change of a call, for display; not visible to models. */
export interface FileChange {
  /** Path relative to the workspace. */
  readonly path: string;
  /** Numbers of added and removed lines. */
  readonly added: number;
  readonly removed: number;
  /** Unified diff without file names, with three lines of context, possibly truncated. */
  readonly diff: string;
  /** Number of diff lines omitted or cut. Default: 0. */
  readonly omitted?: number;
}

/**
 * The result of a tool: text for the model, or text with an error flag. A thrown error's message also becomes
 * an error result.
 */
export type ToolOutput = string | {
  readonly content: string;
  readonly error: boolean;
  /** The change made, where it can be displayed. */
  readonly change?: FileChange | undefined;
  /** True if the tool stopped because its calls await approval; it is run again afterwards. */
  readonly waits?: true;
  /** Images after the text, as `data:` URLs. Only with {@linkcode ToolContext.seesPictures}. */
  readonly pictures?: readonly string[];
};

/** An executable tool. */
export interface Tool {
  /** The full definition; arguments are validated against its `parameters` before {@linkcode Tool.run}. */
  readonly definition: ToolDefinition;
  /**
   * Treatment of old results. Default: `once`.
   * - `rederivable`: the call only reads; its result may be evicted and the call repeated.
   * - `once`: the call has side effects or varying results; its result may be evicted, but repeating the call
   *   is never suggested.
   * - `keep`: the result is never evicted (answers of the user, instructions).
   */
  readonly stance?: "rederivable" | "once" | "keep";
  /**
   * Name of the argument with the target that a call reads, such as `path`; a later write to it makes the
   * result stale.
   */
  readonly reads?: string;
  /** Name of the argument with the target that a call writes. */
  readonly writes?: string;
  /**
   * Whether requests may omit the definition when there are many tools; the model sees the name and one line,
   * and the rest on request. Default: false.
   */
  readonly mayDefer?: boolean;
  /**
   * Claims of the tool's server, such as that it only reads. Informative: `stance` decides. Default: none.
   */
  readonly hints?: JsonSchema;
  /** Longest time of one call, in milliseconds. Default: the loop's. */
  readonly timeoutMs?: number;
  /**
   * Whether the tool acts only through {@linkcode ToolContext.calls} and makes the same calls for the same
   * results. An interrupted call is then run again from its start, and nested calls with results aren't
   * repeated. Default: false.
   */
  readonly replays?: true;
  /**
   * Returns whether a call with these arguments is sandboxed to the agent's environment, so that it needs no
   * approval. Default: false.
   */
  isContained?(args: Readonly<Record<string, unknown>>): boolean;
  /**
   * Returns the tool that a call is for, where this one dispatches to others: that tool runs with its own
   * stance and time limit. A problem is reported to the model, and nothing runs. Default: this tool.
   */
  resolve?(args: Readonly<Record<string, unknown>>): ResolvedCall | { readonly problem: string };
  /**
   * Returns what a call would access, before it runs. May throw where the call would be refused. Default:
   * unknown.
   */
  effects?(args: Readonly<Record<string, unknown>>): Promise<Effects>;
  /**
   * Returns what a call would change if it ran now, or why it would fail, before approval is requested. A
   * problem is reported to the model without approval, so it must contain nothing that needs one. Default:
   * unknown.
   */
  preview?(
    args: Readonly<Record<string, unknown>>,
    context: ToolContext,
  ): Promise<FileChange | { readonly problem: string } | undefined>;
  /**
   * Removes what an interrupted call may have left when its process ended; called before its turn continues
   * elsewhere or ends. Default: nothing to remove.
   */
  clearUp?(
    args: Readonly<Record<string, unknown>>,
    context: Pick<ToolContext, "callId">,
  ): Promise<void>;
  /** Runs the tool with validated arguments. */
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool with the arguments to run it with. */
export interface ResolvedCall {
  readonly tool: Tool;
  /** Valid by the tool's own definition. */
  readonly args: Readonly<Record<string, unknown>>;
}
