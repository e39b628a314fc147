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

/** How a turn ended. */
export interface TurnEnd {
  /**
   * Why: the model answered; it called tools that the caller runs; somebody has to be asked before a call runs; the caller
   * aborted; a limit or the caller's budget was reached; nothing moved for too long; the process that ran it ended (told later,
   * by who finds it); or the provider failed (or a bug did: `internal_error`).
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
  /** What went wrong or which limit was reached, in one sentence. */
  readonly message?: string;
  /** What the provider failed with, if it did. */
  readonly code?: ModelError["code"];
  /** What the turn cost; where it went on with an answer, since then. */
  readonly ledger: TurnLedger;
  /** What all of it cost. Absent: it didn't go on. */
  readonly whole?: TurnLedger;
}

/** Everything that happens in a turn, in one flat union. `step` counts model calls from 1. */
export type LoopEvent =
  /** Without `input` the turn goes on where an earlier one stopped; one that has waited has the `id` that it had then. */
  | { readonly type: "turn_start"; readonly input?: Content; readonly id?: string }
  /** Told again where a reply broke off, or its process ended, and the step goes on: what was shown of it doesn't count. */
  | { readonly type: "step_start"; readonly step: number }
  /** What the user said in the middle of the turn. */
  | { readonly type: "user_message"; readonly step: number; readonly input: Content }
  | ({ readonly type: "context_rewritten"; readonly step: number } & Rewrite)
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "text_delta"; readonly step: number; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly step: number; readonly text: string }
  /** The model's whole reply, as it enters the history; emitted before its calls are run. */
  | { readonly type: "assistant_message"; readonly step: number; readonly message: AssistantMessage }
  /** One that another call made, named by `parent`, is told right before it runs. */
  | ({
    readonly type: "tool_call";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  } & Pick<AskedCall, "parent" | "beganAtMs">)
  /** What a call that takes its time has given so far, for those who watch: the next piece, and of much output only the first. */
  | {
    readonly type: "tool_output";
    readonly step: number;
    readonly id: string;
    readonly text: string;
    /** Id of the call that made this one. */
    readonly parent?: string;
  }
  /** Emitted as each call ends; results enter the history in the order of the calls, those of nested calls never. */
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
    /** What the call has changed, where that can be shown. */
    readonly change?: FileChange;
    /** Id of the call that made this one. */
    readonly parent?: string;
    /**
     * Of a call that made others: how many there were, how many of them failed, and how many tokens their results have
     * beyond what it returned. No prompt ever held those, which is no saving: nobody knows what the model would have done.
     */
    readonly made?: { readonly calls: number; readonly failed: number; readonly keptTokens: number };
    /** Pictures that the model is shown behind it, as `data:` URLs. */
    readonly pictures?: readonly string[];
  }
  /** The call didn't run: the turn ends, and goes on once somebody has said whether it may. */
  | ({
    readonly type: "approval_asked";
    readonly step: number;
    /** Id of the question, where who plays the turn gives it one; `id` is that of the call. */
    readonly approvalId?: string;
    /** When it was asked, in milliseconds since the epoch, where who plays the turn has a clock. */
    readonly askedAtMs?: number;
    /** When the time for an answer is over, where it ever is. */
    readonly expiresAtMs?: number;
  } & AskedCall)
  | {
    readonly type: "step_end";
    readonly step: number;
    /** When the model had answered, in milliseconds since the epoch, where who plays the turn has a clock. */
    readonly atMs?: number;
    readonly usage: Usage;
    /** What the call cost, where the caller knows. */
    readonly cost?: Cost;
    readonly finishReason: FinishReason;
    /** What the context hook says of the call, where it keeps a ledger. */
    readonly ledger?: object;
  }
  /**
   * A request of the step was sent and its reply did not reach its end: the turn was stopped, or the reply broke off or
   * failed. What it took is estimated, by the prompt and what was streamed.
   */
  | {
    readonly type: "reply_unfinished";
    readonly step: number;
    /** When it ended, in milliseconds since the epoch, where who plays the turn has a clock. */
    readonly atMs?: number;
    readonly usage: Usage;
    /** What the request cost, where the caller knows. */
    readonly cost?: Cost;
  }
  | ({ readonly type: "turn_end" } & TurnEnd);

/** The calls that a call has made before it was cut off, or stopped to wait: see {@linkcode Tool.replays}. */
export interface Journal {
  /** When it first ran, in milliseconds since the epoch. */
  readonly beganAtMs: number;
  /** Those that were made, by their ids. */
  readonly made: ReadonlyMap<string, { readonly name: string; readonly arguments: string }>;
  /** What came of them, in the order in which they ended. */
  readonly results: readonly (NestedResult & { readonly id: string })[];
}

/** Says of a call, once its arguments are valid and before anything of it runs, whether it may. Must not reject. */
export type Judge = (call: ResolvedCall) => Judgement | Promise<Judgement>;

/** Whether a call may run. */
export type Judgement =
  /** `reason` is a sentence for the model. */
  | { readonly decision: "deny"; readonly reason: string }
  | ({
    /** `ask`: somebody has to be asked first. */
    readonly decision: "allow" | "ask";
    /** What of it may be touched once it runs. Default: all. */
    readonly allows?: NonNullable<ToolContext["allows"]>;
  } & Pick<AskedCall, "why" | "effects" | "begun">);

/** What somebody is asked to allow: the tool that would run, and the JSON of what it would run with. */
export interface AskedCall {
  /** The call's. */
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** What the tool is. Absent: nobody knows, and a yes is one to no call. */
  readonly pin?: {
    readonly description: string;
    /** Of the schema of its arguments. */
    readonly parameters: string;
    /** Of its stance and its hints. */
    readonly hints: string;
  };
  /** What it would touch, where that is known. */
  readonly effects?: Effects;
  /** What it would change, where that can be shown: a yes is one to this change. */
  readonly change?: FileChange;
  /** Why somebody is asked, in a sentence for people, where it isn't plain. */
  readonly why?: string;
  /** True if it was made before, and nobody knows what came of it: a yes makes it once more. */
  readonly begun?: true;
  /** Id of the call that makes it. Its own is that, a stroke, and its number in the order in which they are made. */
  readonly parent?: string;
  /** When that call first ran, in milliseconds since the epoch. */
  readonly beganAtMs?: number;
}

/** A tool's identity, as SHA-256 in hex of its parts: an approval holds for this tool, not for another of its name. */
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

/** A call that an earlier turn left open to ask for it, and the answer. */
export interface AnsweredCall {
  /** As it stands at the history's end: what was asked may be about one that it made. */
  readonly call: ToolCall;
  /** What was asked: if the call has come to mean anything else since, it doesn't run. */
  readonly asked: AskedCall;
  /** Why it may not run, in a sentence for the model. Absent: it may. */
  readonly denied?: string;
}

/**
 * What a turn cost, what its context hook paid included. A figure is in tokens unless it says otherwise. A call whose
 * reply did not reach its end is in it as estimated; one that was refused is not. What the calls cost in token units and in dollars is absent where it isn't known
 * of all of them.
 */
export interface TurnLedger extends Partial<Cost> {
  /** Model calls whose reply began, those of the context hook apart. */
  readonly calls: number;
  /** Sum of the prompts, cached tokens included. */
  readonly promptTokens: number;
  /** Of these, served from the provider's cache. */
  readonly cachedTokens: number;
  /** Tokens that the model wrote, reasoning included. */
  readonly outputTokens: number;
  /** Prompt tokens that each mechanism kept out, summed over the calls. */
  readonly saved: Readonly<Record<string, number>>;
  /** True if the provider sent no usage for some call, such as one that was cancelled, and it was counted here. */
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

/**
 * The ledger of two stretches of a conversation: of a turn and its next call, of a session and its next turn.
 */
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

/** What both cost; nothing if one took tokens and it isn't known what they cost. */
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
  /** What went wrong between us and the provider. */
  readonly code:
    | "bad_key"
    | "no_such_model"
    | "prompt_too_long"
    | "rate_limited"
    | "unreachable"
    | "bad_request"
    | "bad_response"
    | "provider_error";
  /** How long the provider asks us to wait, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The setting of the request that is at fault, if it is one. */
  readonly param?: string;

  /** Makes an error whose message is one sentence for people. */
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

/** A model call isn't made because a budget is used up: the turn ends by reason `budget`. */
export class BudgetSpent extends Error {
  /** Always `BudgetSpent`. */
  override readonly name = "BudgetSpent";
}
