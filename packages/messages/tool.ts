/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A function tool in the chat-completions wire format. */
export interface ToolDefinition {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON Schema. Default: no arguments. */
    readonly parameters?: JsonSchema;
    readonly strict?: boolean | null;
  };
}

/** The context of a running tool. */
export interface ToolContext {
  /** Aborted when the turn is cancelled or the call times out. */
  readonly signal: AbortSignal;
  /** Resets the caller's watchdog. */
  readonly progress: () => void;
  /** Publishes partial output for display. Default: no observers. */
  readonly output?: (text: string) => void;
  /** Absent outside a turn. */
  readonly callId?: string;
  /** Absent where there is only one. */
  readonly session?: string;
  /** Whether the model reads images. Default: false. */
  readonly supportsImages?: boolean;
  /**
   * Throws if the call must not run any more although it isn't aborted, for example because another server
   * owns the session. Called right before acting. Default: allowed.
   */
  readonly confirm?: () => void;
  /**
   * Returns whether a file may be accessed, by its real path; called right before each access. Default:
   * allowed.
   */
  readonly allows?: (path: string, effect: "reads" | "writes" | "names") => boolean;
  /** Calls other tools of the turn. Only for tools with {@linkcode Tool.replays}. */
  readonly calls?: {
    /** First start, in milliseconds since the epoch; the same at each replay. */
    readonly beganAtMs: number;
    /**
     * Makes a call with the model's rules and limits. Never rejects. Resolves to `undefined` while an
     * approval is pending: the tool finishes its other work, returns `waits`, and is run again with the
     * answer.
     */
    call(name: string, args: unknown): Promise<NestedResult | undefined>;
  };
}

/** Calls of a running tool. Their results enter no prompt. */
export type NestedCalls = NonNullable<ToolContext["calls"]>;

/** A nested call's result. */
export interface NestedResult {
  readonly content: string;
  readonly error: boolean;
}

/** Accessed files, by real absolute paths. */
export interface Effects {
  readonly root: string;
  readonly reads?: readonly string[];
  readonly writes?: readonly string[];
  /** Files, or folders with files, that may be read or named; checked again at each access. */
  readonly searches?: readonly string[];
}

/** A file change, for display; not visible to models. */
export interface FileChange {
  readonly path: string;
  /** Added lines. */
  readonly added: number;
  readonly removed: number;
  /** Unified diff without file names, with three lines of context, possibly truncated. */
  readonly diff: string;
  /** Omitted lines. Default: 0. */
  readonly omitted?: number;
}

/** The result of a tool. A thrown error's message also becomes an error result. */
export type ToolOutput = string | {
  readonly content: string;
  readonly error: boolean;
  readonly change?: FileChange | undefined;
  /** True if the tool waits for approvals, and is run again afterwards. */
  readonly waits?: true;
  /** Images after the text, as `data:` URLs. Only with {@linkcode ToolContext.supportsImages}. */
  readonly images?: readonly string[];
};

/** An executable tool. */
export interface Tool {
  /** Arguments are validated against `parameters` before {@linkcode Tool.run}. */
  readonly definition: ToolDefinition;
  /**
   * Treatment of old results. Default: `once`.
   * - `rederivable`: the call only reads; its result may be evicted and the call repeated.
   * - `once`: the call has side effects or varying results; its result may be evicted, but a repetition is
   *   never suggested.
   * - `keep`: the result is never evicted.
   */
  readonly stance?: "rederivable" | "once" | "keep";
  /**
   * Argument with the target that a call reads, such as `path`, at any depth; later writes to all targets make
   * the result stale.
   */
  readonly reads?: string;
  /** Argument with a written target. */
  readonly writes?: string;
  /**
   * Whether requests may omit the definition: the model then sees the name and one line, and the rest on
   * request. Default: false.
   */
  readonly mayDefer?: boolean;
  /** Untrusted claims of the tool's server, such as that it only reads. Default: none. */
  readonly hints?: JsonSchema;
  /** Default: the loop's. */
  readonly timeoutMs?: number;
  /**
   * Whether the tool acts only through {@linkcode ToolContext.calls} and deterministically, so that an
   * interrupted call is replayed with the results so far. Default: false.
   */
  readonly replays?: true;
  /** Returns whether a call is sandboxed, so that it needs no approval. Default: false. */
  isContained?(args: Readonly<Record<string, unknown>>): boolean;
  /** Returns the tool to dispatch to, or a problem for the model. Default: this tool. */
  resolve?(args: Readonly<Record<string, unknown>>): ResolvedCall | { readonly problem: string };
  /** Returns what a call would access. May throw where the call would be refused. Default: unknown. */
  effects?(args: Readonly<Record<string, unknown>>): Promise<Effects>;
  /**
   * Returns what a call would change, or a problem, before approval is requested. The model sees a problem
   * without approval, so it must not reveal protected content. Default: unknown.
   */
  preview?(
    args: Readonly<Record<string, unknown>>,
    context: ToolContext,
  ): Promise<FileChange | { readonly problem: string } | undefined>;
  /**
   * Removes what an interrupted call may have left, before its turn continues elsewhere or ends. Default:
   * nothing to remove.
   */
  clearUp?(
    args: Readonly<Record<string, unknown>>,
    context: Pick<ToolContext, "callId">,
  ): Promise<void>;
  run(args: Readonly<Record<string, unknown>>, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool with valid arguments. */
export interface ResolvedCall {
  readonly tool: Tool;
  readonly args: Readonly<Record<string, unknown>>;
}
