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
   * `completed`: the model answered. `tool_calls`: it called tools that the caller runs. `approval`: a call needs an
   * approval. `cancelled`: the caller aborted. `step_limit`, `output_limit`, `budget`: a limit was reached. `stalled`:
   * no progress for too long. `interrupted`: the turn's process ended (reported later, by the server that finds it).
   * `model_error`: the provider failed. `internal_error`: a bug.
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
  /** The model's last text; empty if there is none. */
  readonly text: string;
  /** The error or the limit reached, in one sentence. */
  readonly message?: string;
  /** The code of the provider's error. */
  readonly code?: ModelError["code"];
  /** Cost of the turn; of a turn that continued after an approval, the cost since then. */
  readonly ledger: TurnLedger;
  /** Cost of the whole turn. Absent if it didn't continue. */
  readonly whole?: TurnLedger;
}

/** Every event of a turn, in one flat union. `step` counts model calls from 1. */
export type LoopEvent =
  /** Without `input` the turn continues from an earlier one. A message that was queued has its `id` from then. */
  | { readonly type: "turn_start"; readonly input?: Content; readonly id?: string }
  /**
   * Emitted again when a step is retried after its reply or its process failed: discard the earlier deltas of the step.
   */
  | { readonly type: "step_start"; readonly step: number }
  /** A message of the user during the turn. */
  | { readonly type: "user_message"; readonly step: number; readonly input: Content }
  | ({ readonly type: "context_rewritten"; readonly step: number } & Rewrite)
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "text_delta"; readonly step: number; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly step: number; readonly text: string }
  /** The model's whole reply, as it enters the history. Emitted before its calls run. */
  | { readonly type: "assistant_message"; readonly step: number; readonly message: AssistantMessage }
  /** A nested call, with the calling call in `parent`, is emitted right before it runs. */
  | ({
    readonly type: "tool_call";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  } & Pick<AskedCall, "parent" | "beganAtMs">)
  /** The next piece of a running call's output. Long output is truncated. */
  | {
    readonly type: "tool_output";
    readonly step: number;
    readonly id: string;
    readonly text: string;
    /** Id of the call that made this one. */
    readonly parent?: string;
  }
  /** Emitted as each call ends. Results enter the history in the order of the calls, those of nested calls never. */
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
    /** The change of a file, if there is a diff. */
    readonly change?: FileChange;
    /** Id of the call that made this one. */
    readonly parent?: string;
    /**
     * Nested calls: their number, the failed ones, and the tokens of their results beyond those that the call returned.
     * These tokens are not an estimated saving.
     */
    readonly made?: { readonly calls: number; readonly failed: number; readonly keptTokens: number };
    /** Images that the model receives after the text, as `data:` URLs. */
    readonly pictures?: readonly string[];
  }
  /** The call didn't run: the turn ends, and continues after the decision. */
  | ({
    readonly type: "approval_asked";
    readonly step: number;
    /** Id of the approval, if the server assigns one; `id` is that of the call. */
    readonly approvalId?: string;
    /** Time of the request in milliseconds since the epoch, if the server has a clock. */
    readonly askedAtMs?: number;
    /** Time in milliseconds since the epoch at which the approval expires, if it does. */
    readonly expiresAtMs?: number;
  } & AskedCall)
  | {
    readonly type: "step_end";
    readonly step: number;
    /** Time of the reply's end in milliseconds since the epoch, if the server has a clock. */
    readonly atMs?: number;
    readonly usage: Usage;
    /** Cost of the call, if the price is set. */
    readonly cost?: Cost;
    readonly finishReason: FinishReason;
    /** The context hook's ledger of the call. */
    readonly ledger?: object;
  }
  /**
   * A request was sent and its reply is incomplete: the turn was stopped or the reply failed. Its usage is estimated
   * from the prompt and the streamed text.
   */
  | {
    readonly type: "reply_unfinished";
    readonly step: number;
    /** Time of its end in milliseconds since the epoch, if the server has a clock. */
    readonly atMs?: number;
    readonly usage: Usage;
    /** Cost of the request, if the price is set. */
    readonly cost?: Cost;
  }
  | ({ readonly type: "turn_end" } & TurnEnd);

/** The nested calls of a call that was interrupted or waits for an approval: see {@linkcode Tool.replays}. */
export interface Journal {
  /** Time of the call's first run in milliseconds since the epoch. */
  readonly beganAtMs: number;
  /** Nested calls by id. */
  readonly made: ReadonlyMap<string, { readonly name: string; readonly arguments: string }>;
  /** Their results, in the order in which they ended. */
  readonly results: readonly (NestedResult & { readonly id: string })[];
}

/** Decides whether a call may run, after its arguments were validated. Must not reject. */
export type Judge = (call: ResolvedCall) => Judgement | Promise<Judgement>;

/** The decision on a call. */
export type Judgement =
  /** `reason` is a sentence for the model. */
  | { readonly decision: "deny"; readonly reason: string }
  | ({
    /** `ask`: the call needs an approval. */
    readonly decision: "allow" | "ask";
    /** Limits what the running call may access. Default: everything. */
    readonly allows?: NonNullable<ToolContext["allows"]>;
  } & Pick<AskedCall, "why" | "effects" | "begun">);

/** A call that needs an approval, with its tool and the JSON of its arguments. */
export interface AskedCall {
  /** Id of the call. */
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** Identity of the tool. Absent if unknown: then an approval holds for no call. */
  readonly pin?: {
    readonly description: string;
    /** Hash of the schema of its arguments. */
    readonly parameters: string;
    /** Hash of its stance and hints. */
    readonly hints: string;
  };
  /** What the call would access, if it can be determined. */
  readonly effects?: Effects;
  /** The change of a file, if there is a diff: an approval holds for this change only. */
  readonly change?: FileChange;
  /** Why an approval is needed, in a sentence for the user, if it isn't obvious. */
  readonly why?: string;
  /** True if the call was made before with an unknown outcome: an approval repeats it. */
  readonly begun?: true;
  /** Id of the call that makes this one. The id of a nested call is `<parent>/<number>`. */
  readonly parent?: string;
  /** Time of that call's first run in milliseconds since the epoch. */
  readonly beganAtMs?: number;
}

/** Identity of a tool: SHA-256 of its parts, in hex. An approval doesn't hold for another tool of the same name. */
export type ToolPin = NonNullable<AskedCall["pin"]>;

/** Returns the identity of a tool. */
export function pinOf({ definition: { function: told }, stance, hints }: Tool): ToolPin {
  return {
    description: sha256(told.description ?? null),
    parameters: sha256([told.parameters ?? null, told.strict ?? null]),
    hints: sha256([stance ?? null, hints ?? null]),
  };
}

function sha256(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** A call that an earlier turn left open for an approval, with the decision. */
export interface AnsweredCall {
  /** The call at the history's end; `asked` may be a nested call of it. */
  readonly call: ToolCall;
  /** The approved call. If the call differs from it by now, it doesn't run. */
  readonly asked: AskedCall;
  /** Why it may not run, in a sentence for the model. Absent: it may. */
  readonly denied?: string;
}

/**
 * Cost of a turn, including the context hook's calls. Counts are in tokens. Incomplete replies are estimated; refused
 * requests are excluded. Cost units and dollars are absent unless known for every call.
 */
export interface TurnLedger extends Partial<Cost> {
  /** Model calls whose reply began, without those of the context hook. */
  readonly calls: number;
  /** Prompt tokens, including cached ones. */
  readonly promptTokens: number;
  /** Prompt tokens read from the provider's cache. */
  readonly cachedTokens: number;
  /** Tokens that the model wrote, including reasoning. */
  readonly outputTokens: number;
  /** Prompt tokens removed by each mechanism, summed over the calls. */
  readonly saved: Readonly<Record<string, number>>;
  /** True if some call's usage was not reported by the provider and was counted locally. */
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
    ...sumKnown("tokenUnits", a, b),
    ...sumKnown("usd", a, b),
  };
}

/** Returns the total cost, or nothing if the cost of one that used tokens is unknown. */
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
  /** The class of the failure. */
  readonly code:
    | "bad_key"
    | "no_such_model"
    | "prompt_too_long"
    | "rate_limited"
    | "unreachable"
    | "bad_request"
    | "bad_response"
    | "provider_error";
  /** Wait that the provider requests, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The setting of the request that caused the failure. */
  readonly param?: string;

  /** Creates an error whose message is one sentence for users. */
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

/** A model call is refused because a budget is exhausted: the turn ends by reason `budget`. */
export class BudgetSpent extends Error {
  /** Always `BudgetSpent`. */
  override readonly name = "BudgetSpent";
}
