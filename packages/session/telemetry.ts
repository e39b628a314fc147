/**
 * What agent server and gateway tell of themselves by OpenTelemetry: spans and metrics by the semantic conventions for
 * generative AI, and figures of our own, whose names begin with `tare.`. It goes by `@opentelemetry/api` alone: where
 * nobody has set up an exporter nothing is made, and nothing leaves.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { Telemetry } from "@tare/session/telemetry";
 *
 * const telemetry = new Telemetry("my-agent");
 * const turn = telemetry.agent({ agent: "coder", conversation: "c1", provider: "openai", model: "gpt-5" });
 * const tool = telemetry.tool({ name: "read_file", agent: "coder", args: { path: "a.ts" }, parent: turn });
 * tool.end();
 * turn.end();
 * // No exporter is set up.
 * assertEquals(telemetry.isOn, false);
 * ```
 *
 * @module
 */
import {
  type Context,
  context,
  createNoopMeter,
  type Meter,
  metrics,
  propagation,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";
import {
  type ContentPart,
  contentText,
  type Message,
  type ModelSettings,
  type Rewrite,
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { describeCall } from "@tare/messages/internal";

/** Attributes of an operation or a metric, by their names. */
export type Facts = Readonly<Record<string, string | number | boolean | string[] | undefined>>;

/** Something that begins and ends: a span, and its duration as a metric. */
export interface Operation {
  /** Whether anybody gets to see what is told of it. */
  readonly isRecording: boolean;
  /** Does some work as part of it: operations that begin there stand in it. */
  within<T>(work: () => T): T;
  /** Adds what has become known. */
  set(facts: Facts): void;
  /** Ends it, with the class of error that it ended with, if it did; what has ended stays as it is. */
  end(errorType?: string): void;
}

/** What an operation is. */
interface OperationOptions {
  readonly tracer: Tracer;
  /** Name of the span. */
  readonly name: string;
  readonly kind: SpanKind;
  /** What is known of it when it begins. */
  readonly attributes: Facts;
  /** Takes how long it took, in seconds. */
  readonly duration: Figure;
  /** Those of the attributes by which durations are told apart. */
  readonly labels: Facts;
  /** What it is part of. Default: what runs now. */
  readonly parent?: Operation | undefined;
}

/** An operation as the API has it. */
class SpanOperation implements Operation {
  readonly #context: Context;
  readonly #span: Span;
  readonly #options: OperationOptions;
  readonly #startMs = performance.now();
  #isEnded = false;

  /** Begins now. */
  constructor(options: OperationOptions) {
    const { tracer, name, kind, attributes, parent } = options;
    const around = parent instanceof SpanOperation ? parent.#context : context.active();
    this.#options = options;
    this.#span = tracer.startSpan(name, { kind, attributes }, around);
    this.#context = trace.setSpan(around, this.#span);
  }

  get isRecording(): boolean {
    return this.#span.isRecording();
  }

  within<T>(work: () => T): T {
    return context.with(this.#context, work);
  }

  set(facts: Facts): void {
    this.#span.setAttributes(facts);
  }

  /** Notes that something happened in its course. */
  note(event: string, facts: Facts): void {
    this.#span.addEvent(event, facts);
  }

  end(errorType?: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { duration, labels } = this.#options;
    const error = errorType === undefined ? {} : { "error.type": errorType };
    duration((performance.now() - this.#startMs) / 1000, { ...labels, ...error });
    if (errorType !== undefined) {
      this.#span.setAttributes(error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

const HEADERS = {
  keys: (headers: Headers) => [...headers.keys()],
  get: (headers: Headers, name: string) => headers.get(name) ?? undefined,
};

/** What Deno has of its own exporter, where it is the runtime. */
const denos: { readonly tracerProvider?: unknown } | undefined = (globalThis as {
  readonly ["Deno"]?: { readonly telemetry?: object };
})["Deno"]?.telemetry;

/** A whole number as an attribute. Deno's own exporter takes numbers for fractions, and only a `bigint` for a whole one. */
function whole(value: number): number {
  const rounded = Math.round(value);
  return denos?.tracerProvider === trace.getTracerProvider() ? BigInt(rounded) as unknown as number : rounded;
}

/** A call of a model, from its request to the end of its reply. */
export interface Chat extends Operation {
  /** Something of the reply has come. */
  begun(): void;
  /** The reply is there. */
  replied(reply: {
    /** Returns the messages; called only if content is captured. */
    readonly messages: () => readonly Message[];
    /** Why it ended. Default: unknown. */
    readonly finishReason?: string | undefined;
    /** Default: it has none. */
    readonly id?: string | undefined;
  }): void;
  /** What it took, as the provider reported. */
  took(usage: Usage): void;
  /** What was planned for it, and what came of that. */
  planned(call: {
    /** What was rewritten for it. */
    readonly rewrites: readonly Pick<Rewrite, "mechanism" | "tokensBefore" | "tokensAfter">[];
    /** Tokens that each mechanism kept out of it. */
    readonly saved: Readonly<Record<string, number>>;
    /** Its entry in the ledger, as far as it is reported. Absent: no ledger is kept. */
    readonly entry?: {
      readonly usage: Usage;
      readonly predictedCachedTokens: number;
      readonly tokenUnits: number;
      readonly withoutTokenUnits: number;
      /** Why the prompt was rewritten. */
      readonly decision?: { readonly cause: string };
    } | undefined;
  }): void;
}

/** Keeps figures for who reads them here, beside those to whom an exporter brings them. */
export interface Figures {
  /**
   * Returns what adds a value with its attributes to the figure of this name, or counts it in its histogram: the same one
   * for the same name.
   */
  figure(options: FigureOptions): (value: number, facts?: Facts) => void;
  /** Adds one whose values, each with its attributes, are read when a client reads it. */
  observe(
    options: FigureOptions & { readonly kind: "sum" | "level" },
    read: () => Promise<readonly (readonly [value: number, facts?: Facts])[]>,
  ): void;
  /** All of them, as a text of this media type. */
  text(): Promise<string>;
  readonly mediaType: string;
}

/** A metric. */
export interface FigureOptions {
  /** A `sum` only grows, a `level` goes up and down, a `histogram` counts values by their size. */
  readonly kind: "sum" | "level" | "histogram";
  /** Name, unit and description as OpenTelemetry has them. */
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** The attributes by which values are distinguished; others are omitted. Default: none. */
  readonly labels?: readonly string[];
  /** Upper bounds of a histogram's classes. */
  readonly bounds?: readonly number[];
}

type Figure = ReturnType<Figures["figure"]>;

/** Bounds of histograms, as the conventions prescribe them. */
const DURATIONS_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const AGENT_DURATIONS_S = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
/** The powers of four up to 67,108,864. */
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** What tells calls of models apart. */
const MODEL_LABELS = ["gen_ai.provider.name", "gen_ai.request.model", "server.address"];
const CALL_LABELS = ["gen_ai.operation.name", ...MODEL_LABELS];

/** The metrics. */
function instruments(made: (options: FigureOptions) => Figure) {
  const metric =
    (kind: FigureOptions["kind"]) =>
    (name: string, description: string, rest: Omit<FigureOptions, "kind" | "name" | "description">) =>
      made({ kind, name, description, ...rest });
  const [sum, level, histogram] = [metric("sum"), metric("level"), metric("histogram")];
  return {
    tokens: histogram("gen_ai.client.token.usage", "Number of input and output tokens used.", {
      unit: "{token}",
      labels: [...CALL_LABELS, "gen_ai.token.type"],
      bounds: TOKENS,
    }),
    chatDuration: histogram("gen_ai.client.operation.duration", "GenAI operation duration.", {
      unit: "s",
      labels: [...CALL_LABELS, "error.type"],
      bounds: DURATIONS_S,
    }),
    agentDuration: histogram("gen_ai.invoke_agent.duration", "Duration of a turn.", {
      unit: "s",
      labels: ["gen_ai.agent.name", "error.type"],
      bounds: AGENT_DURATIONS_S,
    }),
    toolDuration: histogram("gen_ai.execute_tool.duration", "Duration of a tool call.", {
      unit: "s",
      labels: ["gen_ai.tool.name", "gen_ai.agent.name", "error.type"],
      bounds: DURATIONS_S,
    }),
    savedTokens: sum("tare.saved.tokens", "Tokens that were kept out of prompts.", {
      unit: "{token}",
      labels: ["tare.mechanism", ...MODEL_LABELS],
    }),
    savedTokenUnits: level(
      "tare.saved.token_units",
      "What was saved against what clients would have paid without Tare; one uncached input token costs 1.",
      {
        unit: "{token_unit}",
        labels: MODEL_LABELS,
      },
    ),
    rewrites: sum("tare.rewrites", "Rewrites of prompts.", {
      unit: "{rewrite}",
      labels: ["tare.rewrite.mechanism", "tare.rewrite.cause"],
    }),
    predictedTokens: sum(
      "tare.cache.predicted_tokens",
      "Tokens that the provider's cache was expected to serve.",
      {
        unit: "{token}",
        labels: MODEL_LABELS,
      },
    ),
    reportedTokens: sum("tare.cache.reported_tokens", "Tokens of the same calls that it says it served.", {
      unit: "{token}",
      labels: MODEL_LABELS,
    }),
    recalls: sum("tare.recalls", "Originals that models asked for again.", {
      unit: "{recall}",
    }),
    failOpens: sum("tare.fail_opens", "What was passed on because planning failed.", {
      unit: "{failure}",
      labels: ["tare.fail_open.cause"],
    }),
    cost: sum("tare.cost", "What was paid for models whose price is known, summaries and pings included.", {
      unit: "usd",
      labels: ["gen_ai.request.model"],
    }),
    costWithout: sum("tare.cost.without", "What clients would have paid for the same without Tare.", {
      unit: "usd",
      labels: ["gen_ai.request.model"],
    }),
    promptTokens: sum("tare.prompt.tokens", "Tokens of prompts, as providers reported them.", {
      unit: "{token}",
      labels: ["gen_ai.request.model"],
    }),
    cachedTokens: sum(
      "tare.prompt.cached_tokens",
      "Tokens of the same prompts that were read from a cache.",
      {
        unit: "{token}",
        labels: ["gen_ai.request.model"],
      },
    ),
  };
}

type Instruments = ReturnType<typeof instruments>;

/** An instrument that tells an exporter, if there is one, and figures that are kept here, if any are. */
function instrument(options: FigureOptions, meter: Meter, figures: Figures | undefined): Figure {
  const { kind, name, unit, description, bounds = [] } = options;
  const told = kind === "histogram"
    ? meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: [...bounds] } })
    : kind === "sum"
    ? meter.createCounter(name, { unit, description })
    : meter.createUpDownCounter(name, { unit, description });
  const kept = figures?.figure(options);
  return (value, facts) => {
    if ("record" in told) told.record(value, facts);
    else told.add(value, facts);
    kept?.(value, facts);
  };
}

/** What telemetry holds, and where its metrics go. */
export interface TelemetryOptions {
  /**
   * Whether spans hold content: prompts, replies, arguments and results of tools. It is then stored wherever the spans
   * are. Default: no.
   */
  readonly captureContent?: boolean;
  /** Stores the metrics too. Default: none. */
  readonly figures?: Figures | undefined;
}

/** A call of a model that begins. */
export interface ChatOptions {
  /** Provider of the model, as the conventions name it. */
  readonly provider: string;
  /** Default: unknown. */
  readonly model?: string | undefined;
  /** Id of the session. Default: it belongs to none. */
  readonly conversation?: string | undefined;
  /** Address of the provider. Default: unknown. */
  readonly address?: URL | undefined;
  /** Whether the reply is streamed. Default: no. */
  readonly stream?: boolean;
  readonly settings?: ModelSettings | undefined;
  /** What the model sees. Default: unknown. */
  readonly prompt?: {
    readonly messages: readonly Message[];
    readonly tools: readonly ToolDefinition[];
  } | undefined;
  /** What it is part of. Default: what runs now. */
  readonly parent?: Operation | undefined;
}

/** Tells of turns, model calls and tools: makes the spans and metrics of one part of the program. */
export class Telemetry {
  /** Whether anybody has set up an exporter: else nothing that is told here comes to anything. */
  readonly isOn: boolean;
  /** Whether spans hold what was said. */
  readonly captureContent: boolean;
  readonly #tracer: Tracer;
  readonly #instruments: Instruments;

  /** Telemetry of this part of the program, such as `@tare/gateway`. What exports it must have been set up before. */
  constructor(scope: string, { captureContent = false, figures }: TelemetryOptions = {}) {
    const provider = trace.getTracerProvider();
    const meter = metrics.getMeter(scope);
    const isTraced = !(provider instanceof ProxyTracerProvider) ||
      provider.getDelegateTracer(scope) !== undefined;
    this.isOn = isTraced || meter !== createNoopMeter() || figures !== undefined;
    this.captureContent = captureContent;
    this.#tracer = provider.getTracer(scope);
    this.#instruments = instruments((options) => instrument(options, meter, figures));
  }

  /** The class of an error by which operations are told apart: its code, or its name. Never its message. */
  static errorTypeOf(error: unknown): string {
    if (!(error instanceof Error)) return "_OTHER";
    if (error.name === "AbortError") return "cancelled";
    if (error.name === "TimeoutError") return "timeout";
    const { code } = error as { readonly code?: unknown };
    return typeof code === "string" ? code : error.name;
  }

  /**
   * Does some work as part of the trace that a request says it belongs to (`traceparent`), for servers that don't see to
   * that themselves.
   */
  static inTraceOf<T>({ headers }: Request, work: () => T): T {
    if (propagation.fields().length === 0 || trace.getActiveSpan()) return work();
    return context.with(propagation.extract(ROOT_CONTEXT, headers, HEADERS), work);
  }

  /** Remembers what runs now, and does later work as part of it, whoever lets that work be done. */
  static inThisTrace(): <T>(work: () => T) => T {
    const now = context.active();
    return (work) => context.with(now, work);
  }

  /**
   * Takes from a request's headers those that say which trace it belongs to, if whoever sends it on writes them anew: it is
   * part of an operation of ours then. Where nothing is traced they stay as they came.
   */
  static withoutTrace(headers: Headers): void {
    for (const name of propagation.fields()) headers.delete(name);
  }

  /** A turn begins. */
  agent({ agent, conversation, provider, model }: {
    /** Name of the agent. */
    readonly agent: string;
    /** Id of its session. */
    readonly conversation: string;
    /** Provider of its model, as the conventions name it. */
    readonly provider: string;
    readonly model: string;
  }): Operation {
    const labels = { "gen_ai.agent.name": agent };
    return new SpanOperation({
      tracer: this.#tracer,
      name: `invoke_agent ${agent}`,
      kind: SpanKind.INTERNAL,
      attributes: {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider,
        "gen_ai.conversation.id": conversation,
        "gen_ai.request.model": model,
        ...labels,
      },
      duration: this.#instruments.agentDuration,
      labels,
    });
  }

  /** A model is called. */
  chat(options: ChatOptions): Chat {
    const { captureContent } = this;
    return new SpanChat(options, { tracer: this.#tracer, instruments: this.#instruments, captureContent });
  }

  /** A tool is called. */
  tool({ name, callId, agent, args, parent }: {
    readonly name: string;
    /** Id of the call. */
    readonly callId?: string | undefined;
    /** Name of the agent that calls it. */
    readonly agent: string;
    readonly args: unknown;
    /** What it is part of. Default: what runs now. */
    readonly parent?: Operation;
  }): Operation {
    const labels = {
      "gen_ai.tool.name": name,
      "gen_ai.tool.type": "function",
      "gen_ai.agent.name": agent,
    };
    return new SpanOperation({
      tracer: this.#tracer,
      name: `execute_tool ${name}`,
      kind: SpanKind.INTERNAL,
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        ...labels,
        ...(callId && { "gen_ai.tool.call.id": callId }),
        ...(this.captureContent && { "gen_ai.tool.call.arguments": JSON.stringify(args) }),
      },
      duration: this.#instruments.toolDuration,
      labels,
      parent,
    });
  }

  /** Calls were booked, or what keeping their prompts warm has cost. */
  booked(
    { usd = 0, withoutUsd = 0, promptTokens = 0, cachedTokens = 0 }: {
      readonly usd?: number;
      /** What its client would have paid without Tare. */
      readonly withoutUsd?: number;
      readonly promptTokens?: number;
      readonly cachedTokens?: number;
    },
    model: string,
  ): void {
    const { cost, costWithout, promptTokens: prompts, cachedTokens: cached } = this.#instruments;
    const facts = { "gen_ai.request.model": model };
    const told = [
      [cost, usd],
      [costWithout, withoutUsd],
      [prompts, promptTokens],
      [cached, cachedTokens],
    ] as const;
    for (const [figure, value] of told) if (value > 0) figure(value, facts);
  }

  /** A model asked for so many originals of what had left its prompt. */
  recalled(count: number): void {
    this.#instruments.recalls(count);
  }

  /**
   * Something could not be done for a request, which continued without it: `request`, it was forwarded unchanged; `session`,
   * all of its session are from now on; `reply`, its answer was forwarded unread, `long_reply`, because it is too long;
   * `stream`, the rest of a streamed one was; `usage`, its cost isn't recorded; `recall`, a recall wasn't answered;
   * `memory`, one will not be remembered; `warmth`, its prompt isn't kept warm; `store`, the state of its conversation
   * couldn't be stored, or found.
   */
  failedOpen(
    cause:
      | "request"
      | "session"
      | "reply"
      | "long_reply"
      | "stream"
      | "usage"
      | "recall"
      | "memory"
      | "warmth"
      | "store",
  ): void {
    this.#instruments.failOpens(1, { "tare.fail_open.cause": cause });
  }
}

/** A call of a model as the API has it. */
class SpanChat extends SpanOperation implements Chat {
  readonly #labels: Facts;
  readonly #instruments: Instruments;
  readonly #captureContent: boolean;
  readonly #sentMs = performance.now();
  #hasBegun = false;

  /** Begins now. */
  constructor(options: ChatOptions, { tracer, instruments, captureContent }: {
    readonly tracer: Tracer;
    readonly instruments: Instruments;
    readonly captureContent: boolean;
  }) {
    const { provider, model, conversation, address, stream, settings = {}, prompt, parent } = options;
    const labels: Facts = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": provider,
      ...(model !== undefined && { "gen_ai.request.model": model }),
      ...(address && { "server.address": address.hostname, "server.port": whole(portOf(address)) }),
    };
    super({
      tracer,
      name: model === undefined ? "chat" : `chat ${model}`,
      kind: SpanKind.CLIENT,
      attributes: {
        ...labels,
        ...(conversation !== undefined && { "gen_ai.conversation.id": conversation }),
        ...(stream && { "gen_ai.request.stream": true }),
        ...settingsOf(settings),
      },
      duration: instruments.chatDuration,
      labels,
      parent,
    });
    this.#labels = labels;
    this.#instruments = instruments;
    this.#captureContent = captureContent && this.isRecording;
    if (prompt && this.#captureContent) {
      this.set({
        "gen_ai.input.messages": JSON.stringify(inputMessages(prompt.messages)),
        ...(prompt.tools.length > 0 && {
          "gen_ai.tool.definitions": JSON.stringify(toolDefinitions(prompt.tools)),
        }),
      });
    }
  }

  begun(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.set({ "gen_ai.response.time_to_first_chunk": (performance.now() - this.#sentMs) / 1000 });
  }

  replied({ messages, finishReason, id }: Parameters<Chat["replied"]>[0]): void {
    this.set({
      ...(finishReason && { "gen_ai.response.finish_reasons": [finishReason] }),
      ...(id !== undefined && { "gen_ai.response.id": id }),
      ...(this.#captureContent && {
        "gen_ai.output.messages": JSON.stringify(outputMessages(messages(), finishReason)),
      }),
    });
  }

  took({ promptTokens, outputTokens, cachedTokens, cacheWriteTokens, estimated }: Usage): void {
    // What was counted here is no usage.
    if (estimated) return;
    const { tokens } = this.#instruments;
    tokens(promptTokens, { ...this.#labels, "gen_ai.token.type": "input" });
    tokens(outputTokens, { ...this.#labels, "gen_ai.token.type": "output" });
    this.set({
      "gen_ai.usage.input_tokens": whole(promptTokens),
      "gen_ai.usage.output_tokens": whole(outputTokens),
      "gen_ai.usage.cache_read.input_tokens": whole(cachedTokens),
      ...(cacheWriteTokens !== undefined && {
        "gen_ai.usage.cache_creation.input_tokens": whole(cacheWriteTokens),
      }),
    });
  }

  planned({ rewrites, saved, entry }: PlannedChat): void {
    const { rewrites: rewritten, savedTokens, savedTokenUnits, predictedTokens, reportedTokens } =
      this.#instruments;
    for (const { mechanism, tokensBefore, tokensAfter } of rewrites) {
      const told = { "tare.rewrite.mechanism": mechanism, "tare.rewrite.cause": causeOf(mechanism, entry) };
      rewritten(1, told);
      this.note("tare.rewrite", {
        ...told,
        "tare.rewrite.tokens_before": whole(tokensBefore),
        "tare.rewrite.tokens_after": whole(tokensAfter),
      });
    }
    let sum = 0;
    for (const [mechanism, tokens] of Object.entries(saved)) {
      sum += tokens;
      // What looking tools up takes is a loss, and no counter goes back.
      if (tokens > 0) savedTokens(tokens, { ...this.#labels, "tare.mechanism": mechanism });
    }
    this.set({ "tare.saved.tokens": whole(sum) });
    if (!entry) return;
    const { usage, predictedCachedTokens, tokenUnits, withoutTokenUnits } = entry;
    savedTokenUnits(withoutTokenUnits - tokenUnits, this.#labels);
    this.set({
      "tare.saved.token_units": withoutTokenUnits - tokenUnits,
      "tare.cache.predicted_tokens": whole(predictedCachedTokens),
    });
    if (usage.estimated) return;
    predictedTokens(predictedCachedTokens, this.#labels);
    reportedTokens(usage.cachedTokens, this.#labels);
  }
}

type PlannedChat = Parameters<Chat["planned"]>[0];

/** Why a rewrite was made, in a word. */
function causeOf(mechanism: string, entry: PlannedChat["entry"]): string {
  if (mechanism === "planner") return entry?.decision?.cause === "price" ? "price" : "window";
  if (mechanism === "truncate") return "arrival";
  return mechanism === "pins" ? "asked" : "trigger";
}

function settingsOf(settings: ModelSettings): Facts {
  const { temperature, top_p, frequency_penalty, presence_penalty, seed } = settings;
  return {
    ...(temperature !== undefined && { "gen_ai.request.temperature": temperature }),
    ...(top_p !== undefined && { "gen_ai.request.top_p": top_p }),
    ...(frequency_penalty !== undefined && { "gen_ai.request.frequency_penalty": frequency_penalty }),
    ...(presence_penalty !== undefined && { "gen_ai.request.presence_penalty": presence_penalty }),
    ...(seed !== undefined && { "gen_ai.request.seed": whole(seed) }),
  };
}

function portOf({ port, protocol }: URL): number {
  return port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
}

/** A part of a message, in the form of the conventions' JSON schemas: its type, and what else belongs to it. */
interface Part {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A message in that form. */
interface GenAiMessage {
  readonly role: string;
  readonly parts: readonly Part[];
  readonly finish_reason?: string;
}

/** What a model sees, in the form of the conventions' `gen_ai.input.messages`. */
function inputMessages(messages: readonly Message[]): readonly GenAiMessage[] {
  return messages.map((message) => ({ role: message.role, parts: partsOf(message) }));
}

/** A model's reply, in the form of the conventions' `gen_ai.output.messages`: one message. */
function outputMessages(
  messages: readonly Message[],
  finishReason = "",
): readonly GenAiMessage[] {
  // The conventions have a word of their own for it.
  const finish_reason = finishReason === "tool_calls" ? "tool_call" : finishReason;
  return [{ role: "assistant", parts: messages.flatMap(partsOf), finish_reason }];
}

/** The tools of a request, in the form of the conventions' `gen_ai.tool.definitions`: what they must hold. */
function toolDefinitions(tools: readonly ToolDefinition[]): readonly Part[] {
  return tools.map(({ type, function: { name } }) => ({ type, name }));
}

function partsOf(message: Message): readonly Part[] {
  if (message.role === "tool") {
    const { tool_call_id: id, content } = message;
    return [{ type: "tool_call_response", id, response: contentText(content) }];
  }
  const { content } = message;
  const said = typeof content === "string"
    ? (content === "" ? [] : [{ type: "text", content }])
    : (content ?? []).map(partOf);
  return message.role === "assistant" ? [...said, ...(message.tool_calls ?? []).map(callPart)] : said;
}

/** Pictures, recordings and files are named, without what they hold. */
function partOf(part: ContentPart): Part {
  return part.type === "text" ? { type: "text", content: part.text } : { type: part.type };
}

function callPart(call: ToolCall): Part {
  const { name, arguments: text } = describeCall(call);
  return { type: "tool_call", id: call.id, name, arguments: parsed(text) };
}

/** What JSON text says; the text itself if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
