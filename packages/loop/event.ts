import { createHash } from "node:crypto";
import type {
  AssistantMessage,
  Content,
  Cost,
  Effects,
  FileChange,
  FinishReason,
  NestedResult,
  ResolvedCall,
  Rewrite,
  Tool,
  ToolCall,
  ToolContext,
  Usage,
} from "@tare/messages";

/** The end of a turn. */
export interface TurnEnd {
  /**
   * `tool_calls`: the model called tools that the caller runs. `approval`: a call needs one. `stalled`: no progress for
   * too long. `interrupted`: the process ended, as reported by a later one. `internal_error`: a bug.
   */
  readonly reason:
    | "completed"
    | "tool_calls"
    | "approval"
    | "cancelled"
    | "step_limit"
    | "output_limit"
    | "budget"
    | "stalled"
    | "interrupted"
    | "model_error"
    | "internal_error";
  /** The model's last text, or "". */
  readonly text: string;
  /** The error or limit, in one sentence. */
  readonly message?: string;
  readonly code?: ModelError["code"];
  /** Cost of the turn, since its last approval if it had one. */
  readonly ledger: TurnLedger;
  /** Total cost of a turn that continued. */
  readonly whole?: TurnLedger;
}

/** Every event of a turn. `step` counts model calls from 1. */
export type LoopEvent =
  /** Without `input` the turn continues an earlier one. `id` is that of a queued message. */
  | { readonly type: "turn_start"; readonly input?: Content; readonly id?: string }
  /** Emitted again when a failed reply or process is retried: discard the step's earlier deltas. */
  | { readonly type: "step_start"; readonly step: number }
  | { readonly type: "user_message"; readonly step: number; readonly input: Content }
  | ({ readonly type: "context_rewritten"; readonly step: number } & Rewrite)
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "text_delta"; readonly step: number; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly step: number; readonly text: string }
  /** Emitted before the reply's calls run. */
  | { readonly type: "assistant_message"; readonly step: number; readonly message: AssistantMessage }
  /** A nested call, with `parent`, is emitted right before it runs. */
  | ({
    readonly type: "tool_call";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  } & Pick<PendingCall, "parent" | "beganAtMs">)
  /** Output of a running call, truncated if long. */
  | {
    readonly type: "tool_output";
    readonly step: number;
    readonly id: string;
    readonly text: string;
    readonly parent?: string;
  }
  /** Emitted as each call ends; in the history results have the order of the calls, without nested ones. */
  | {
    readonly type: "tool_result";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly content: string;
    readonly error: boolean;
    /** UTF-8 bytes of `content`. */
    readonly bytes: number;
    readonly durationMs: number;
    readonly change?: FileChange;
    /** Id of the calling call. */
    readonly parent?: string;
    /**
     * Nested calls, those that failed, and the tokens of their results that were not returned. These are not an
     * estimated saving.
     */
    readonly made?: { readonly calls: number; readonly failed: number; readonly omittedTokens: number };
    /** Images for the model, as `data:` URLs. */
    readonly images?: readonly string[];
  }
  /** The call didn't run; the turn ends until the decision. */
  | ({
    readonly type: "approval_requested";
    readonly step: number;
    /** Id of the approval, on a server. */
    readonly approvalId?: string;
    /** Milliseconds since the epoch, on a server. */
    readonly requestedAtMs?: number;
    /** Milliseconds since the epoch, if it expires. */
    readonly expiresAtMs?: number;
  } & PendingCall)
  | {
    readonly type: "step_end";
    readonly step: number;
    /** Time of the reply in milliseconds since the epoch, on a server. */
    readonly atMs?: number;
    readonly usage: Usage;
    readonly cost?: Cost;
    readonly finishReason: FinishReason;
    readonly ledger?: object;
  }
  /** The reply of a request is incomplete. `usage` is estimated from the prompt and the streamed text. */
  | {
    readonly type: "reply_unfinished";
    readonly step: number;
    /** Milliseconds since the epoch, on a server. */
    readonly atMs?: number;
    readonly usage: Usage;
    readonly cost?: Cost;
  }
  | ({ readonly type: "turn_end" } & TurnEnd);

/** Nested calls of a call that was interrupted or waits: see {@linkcode Tool.replays}. */
export interface Journal {
  /** First run of the call, in milliseconds since the epoch. */
  readonly beganAtMs: number;
  readonly made: ReadonlyMap<string, { readonly name: string; readonly arguments: string }>;
  /** In the order in which they ended. */
  readonly results: readonly (NestedResult & { readonly id: string })[];
}

/** Decides on a call with valid arguments. Must not reject. */
export type Judge = (call: ResolvedCall) => Judgement | Promise<Judgement>;

/** The decision on a call. */
export type Judgement =
  /** `reason` is a sentence for the model. */
  | { readonly decision: "deny"; readonly reason: string }
  | ({
    /** `ask` requires an approval. */
    readonly decision: "allow" | "ask";
    /** Access of the running call. Default: unlimited. */
    readonly allows?: NonNullable<ToolContext["allows"]>;
  } & Pick<PendingCall, "why" | "effects" | "begun">);

/** A call that needs an approval. */
export interface PendingCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** Identity of the tool. Without it no approval holds. */
  readonly pin?: {
    readonly description: string;
    readonly parameters: string;
    readonly hints: string;
  };
  /** Access that the call needs. */
  readonly effects?: Effects;
  /** The diff to which an approval is limited. */
  readonly change?: FileChange;
  /** Why, in a sentence for the user. */
  readonly why?: string;
  /** True if an earlier run has an unknown outcome: an approval repeats the call. */
  readonly begun?: true;
  /** Id of the calling call. A nested call's id is `<parent>/<number>`. */
  readonly parent?: string;
  /** First run of that call, in milliseconds since the epoch. */
  readonly beganAtMs?: number;
}

/** Identity of a tool, as SHA-256 of its parts in hex: an approval holds for no other tool of that name. */
export type ToolPin = NonNullable<PendingCall["pin"]>;

/** Returns the identity of a tool. */
export function pinOf({ definition: { function: definition }, stance, hints }: Tool): ToolPin {
  return {
    description: sha256(definition.description ?? null),
    parameters: sha256([definition.parameters ?? null, definition.strict ?? null]),
    hints: sha256([stance ?? null, hints ?? null]),
  };
}

function sha256(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** An open call of an earlier turn, with the decision. */
export interface AnsweredCall {
  /** The call in the history; `question` may be nested in it. */
  readonly call: ToolCall;
  /** The approved call. It runs only if unchanged. */
  readonly question: PendingCall;
  /** Why it is denied, in a sentence for the model. Absent: it may run. */
  readonly denied?: string;
}

/**
 * Cost of a turn in tokens, calls of the context hook included. Incomplete replies are estimated, refused
 * requests excluded. Cost units and dollars are absent unless known for every call.
 */
export interface TurnLedger extends Partial<Cost> {
  /** Model calls whose reply began, without the context hook's. */
  readonly calls: number;
  /** Prompt tokens, including cached ones. */
  readonly promptTokens: number;
  /** Prompt tokens read from the cache. */
  readonly cachedTokens: number;
  /** Output tokens, including reasoning. */
  readonly outputTokens: number;
  /** Prompt tokens removed by each mechanism, summed over the calls. */
  readonly saved: Readonly<Record<string, number>>;
  /** Whether usage was counted locally for some call. */
  readonly estimated: boolean;
}

/** The ledger before the first model call. */
export const EMPTY_LEDGER: TurnLedger = {
  calls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  saved: {},
  estimated: false,
};

/** Returns the sum of two ledgers. */
export function addLedgers(a: TurnLedger, b: TurnLedger): TurnLedger {
  const saved = { ...a.saved };
  for (const [mechanism, tokens] of Object.entries(b.saved)) {
    saved[mechanism] = (saved[mechanism] ?? 0) + tokens;
  }
  return {
    calls: a.calls + b.calls,
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    saved,
    estimated: a.estimated || b.estimated,
    ...sumKnown("costUnits", a, b),
    ...sumKnown("usd", a, b),
  };
}

/** Returns {} if the cost of a ledger with tokens is unknown. */
function sumKnown(unit: keyof Cost, a: TurnLedger, b: TurnLedger): Partial<Cost> {
  let sum: number | undefined;
  for (const ledger of [a, b]) {
    if (ledger.promptTokens + ledger.outputTokens === 0) continue;
    const cost = ledger[unit];
    if (cost === undefined) return {};
    sum = (sum ?? 0) + cost;
  }
  return sum === undefined ? {} : { [unit]: sum };
}

/** A failed model request, classified by {@linkcode ModelError.code}. */
export class ModelError extends Error {
  /** Always `ModelError`. */
  override readonly name = "ModelError";
  readonly code:
    | "bad_key"
    | "no_such_model"
    | "prompt_too_long"
    | "rate_limited"
    /** The account's quota or credit is exhausted: waiting doesn't help. */
    | "insufficient_quota"
    | "unreachable"
    | "bad_request"
    | "bad_response"
    | "provider_error";
  /** Wait that the provider requests, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The setting at fault. */
  readonly param?: string;

  /** Creates an error with one sentence for users. */
  constructor(
    code: ModelError["code"],
    message: string,
    options: Pick<ModelError, "retryAfterMs" | "param"> & ErrorOptions = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
    if (options.param !== undefined) this.param = options.param;
  }
}

/** Ends the turn by reason `budget`: no model call is made. */
export class BudgetSpent extends Error {
  /** Always `BudgetSpent`. */
  override readonly name = "BudgetSpent";
}
