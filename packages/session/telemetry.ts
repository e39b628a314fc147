/**
 * OpenTelemetry of agent server and gateway: spans and metrics by the semantic conventions for generative AI, and own
 * metrics, whose names begin with `tare.`. Only `@opentelemetry/api` is used: without an exporter nothing is created.
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

/** Attributes of an operation or a metric. */
export type Facts = Readonly<Record<string, string | number | boolean | string[] | undefined>>;

/** A span, and its duration as a metric. */
export interface Operation {
  /** Whether the span is recorded. */
  readonly isRecording: boolean;
  /** Runs work as part of it: operations that begin there become its children. */
  within<T>(work: () => T): T;
  set(facts: Facts): void;
  /** Ends it, with an error's class if it failed. Later calls do nothing. */
  end(errorType?: string): void;
}

interface OperationOptions {
  readonly tracer: Tracer;
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: Facts;
  readonly duration: MetricRecorder;
  readonly labels: Facts;
  /** Default: the active operation. */
  readonly parent?: Operation | undefined;
}

class SpanOperation implements Operation {
  readonly #context: Context;
  readonly #span: Span;
  readonly #options: OperationOptions;
  readonly #startMs = performance.now();
  #isEnded = false;

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

/** Deno's built-in exporter, if Deno is the runtime. */
const denos: { readonly tracerProvider?: unknown } | undefined = (globalThis as {
  readonly ["Deno"]?: { readonly telemetry?: object };
})["Deno"]?.telemetry;

/** Returns an integer attribute: Deno's exporter writes numbers as floats, and only a `bigint` as an integer. */
function whole(value: number): number {
  const rounded = Math.round(value);
  return denos?.tracerProvider === trace.getTracerProvider() ? BigInt(rounded) as unknown as number : rounded;
}

/** A model call. */
export interface Chat extends Operation {
  begun(): void;
  replied(reply: {
    readonly messages: () => readonly Message[];
    /** Default: unknown. */
    readonly finishReason?: string | undefined;
    readonly id?: string | undefined;
  }): void;
  took(usage: Usage): void;
  /** Adds the planning of its prompt and the outcome. */
  planned(call: {
    readonly rewrites: readonly Pick<Rewrite, "mechanism" | "tokensBefore" | "tokensAfter">[];
    /** Tokens that each mechanism removed from the prompt. */
    readonly saved: Readonly<Record<string, number>>;
    /** The reported part of its ledger entry. Absent: there is no ledger. */
    readonly entry?: {
      readonly usage: Usage;
      readonly predictedCachedTokens: number;
      readonly costUnits: number;
      readonly baselineCostUnits: number;
      readonly decision?: { readonly cause: string };
    } | undefined;
  }): void;
}

/** A local registry of metrics, in addition to an exporter. */
export interface MetricRegistry {
  /** Returns a function that adds a value to a metric; the same one per name. */
  metric(options: MetricOptions): (value: number, facts?: Facts) => void;
  observe(
    options: MetricOptions & { readonly kind: "sum" | "level" },
    read: () => Promise<readonly (readonly [value: number, facts?: Facts])[]>,
  ): void;
  text(): Promise<string>;
  readonly mediaType: string;
}

/** A metric. */
export interface MetricOptions {
  /** A `sum` only grows, a `level` goes up and down, a `histogram` counts values by size. */
  readonly kind: "sum" | "level" | "histogram";
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** Attributes that distinguish series; others are omitted. Default: none. */
  readonly labels?: readonly string[];
  readonly bounds?: readonly number[];
}

type MetricRecorder = ReturnType<MetricRegistry["metric"]>;

/** Histogram bounds prescribed by the conventions. */
const DURATIONS_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const AGENT_DURATIONS_S = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);

const MODEL_LABELS = ["gen_ai.provider.name", "gen_ai.request.model", "server.address"];
const CALL_LABELS = ["gen_ai.operation.name", ...MODEL_LABELS];

function instruments(made: (options: MetricOptions) => MetricRecorder) {
  const metric =
    (kind: MetricOptions["kind"]) =>
    (name: string, description: string, rest: Omit<MetricOptions, "kind" | "name" | "description">) =>
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
    savedTokens: sum("tare.saved.tokens", "Tokens removed from prompts.", {
      unit: "{token}",
      labels: ["tare.mechanism", ...MODEL_LABELS],
    }),
    savedCostUnits: level(
      "tare.saved.cost_units",
      "Estimated saving against the baseline without Tare, in cost units (one = one uncached input token).",
      {
        unit: "{cost_unit}",
        labels: MODEL_LABELS,
      },
    ),
    rewrites: sum("tare.rewrites", "Rewrites of prompts.", {
      unit: "{rewrite}",
      labels: ["tare.rewrite.mechanism", "tare.rewrite.cause"],
    }),
    predictedTokens: sum(
      "tare.cache.predicted_tokens",
      "Prompt tokens expected to be cache hits.",
      {
        unit: "{token}",
        labels: MODEL_LABELS,
      },
    ),
    reportedTokens: sum(
      "tare.cache.reported_tokens",
      "Prompt tokens of the same calls that the provider reported as cache hits.",
      {
        unit: "{token}",
        labels: MODEL_LABELS,
      },
    ),
    recalls: sum("tare.recalls", "Evicted originals that models recalled.", {
      unit: "{recall}",
    }),
    failOpens: sum("tare.fail_opens", "Requests forwarded without Tare's processing after a failure.", {
      unit: "{failure}",
      labels: ["tare.fail_open.cause"],
    }),
    cost: sum(
      "tare.cost",
      "Cost of models with a known price, including summaries and keep-alive requests.",
      {
        unit: "usd",
        labels: ["gen_ai.request.model"],
      },
    ),
    baselineCost: sum("tare.cost.baseline", "Baseline cost of the same calls without Tare.", {
      unit: "usd",
      labels: ["gen_ai.request.model"],
    }),
    promptTokens: sum("tare.prompt.tokens", "Prompt tokens reported by providers.", {
      unit: "{token}",
      labels: ["gen_ai.request.model"],
    }),
    cachedTokens: sum(
      "tare.prompt.cached_tokens",
      "Prompt tokens of the same calls read from a cache.",
      {
        unit: "{token}",
        labels: ["gen_ai.request.model"],
      },
    ),
  };
}

type Instruments = ReturnType<typeof instruments>;

function instrument(
  options: MetricOptions,
  meter: Meter,
  metricRegistry: MetricRegistry | undefined,
): MetricRecorder {
  const { kind, name, unit, description, bounds = [] } = options;
  const recorded = kind === "histogram"
    ? meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: [...bounds] } })
    : kind === "sum"
    ? meter.createCounter(name, { unit, description })
    : meter.createUpDownCounter(name, { unit, description });
  const metric = metricRegistry?.metric(options);
  return (value, facts) => {
    if ("record" in recorded) recorded.record(value, facts);
    else recorded.add(value, facts);
    metric?.(value, facts);
  };
}

/** Options of {@linkcode Telemetry}. */
export interface TelemetryOptions {
  /** Whether spans contain prompts, replies, and arguments and results of tools. Default: no. */
  readonly captureContent?: boolean;
  /** Local registry of metrics. Default: none. */
  readonly metricRegistry?: MetricRegistry | undefined;
}

/** Options of a model call. */
export interface ChatOptions {
  /** Provider name by the conventions. */
  readonly provider: string;
  readonly model?: string | undefined;
  readonly conversation?: string | undefined;
  readonly address?: URL | undefined;
  /** Default: no. */
  readonly stream?: boolean;
  readonly settings?: ModelSettings | undefined;
  readonly prompt?: {
    readonly messages: readonly Message[];
    readonly tools: readonly ToolDefinition[];
  } | undefined;
  /** Default: the active operation. */
  readonly parent?: Operation | undefined;
}

/** Creates the spans and metrics of one instrumentation scope. */
export class Telemetry {
  readonly isOn: boolean;
  readonly captureContent: boolean;
  readonly #tracer: Tracer;
  readonly #instruments: Instruments;

  /** Creates the telemetry of a scope, such as `@tare/gateway`. Exporters must be set up before. */
  constructor(scope: string, { captureContent = false, metricRegistry }: TelemetryOptions = {}) {
    const provider = trace.getTracerProvider();
    const meter = metrics.getMeter(scope);
    const isTraced = !(provider instanceof ProxyTracerProvider) ||
      provider.getDelegateTracer(scope) !== undefined;
    this.isOn = isTraced || meter !== createNoopMeter() || metricRegistry !== undefined;
    this.captureContent = captureContent;
    this.#tracer = provider.getTracer(scope);
    this.#instruments = instruments((options) => instrument(options, meter, metricRegistry));
  }

  /** Returns an error's class: its code or name, never its message. */
  static errorTypeOf(error: unknown): string {
    if (!(error instanceof Error)) return "_OTHER";
    if (error.name === "AbortError") return "cancelled";
    if (error.name === "TimeoutError") return "timeout";
    const { code } = error as { readonly code?: unknown };
    return typeof code === "string" ? code : error.name;
  }

  /** Runs work as part of a request's trace (`traceparent`), for servers that don't do so themselves. */
  static inTraceOf<T>({ headers }: Request, work: () => T): T {
    if (propagation.fields().length === 0 || trace.getActiveSpan()) return work();
    return context.with(propagation.extract(ROOT_CONTEXT, headers, HEADERS), work);
  }

  /** Captures the active trace. Returns a function that runs later work in it. */
  static inThisTrace(): <T>(work: () => T) => T {
    const now = context.active();
    return (work) => context.with(now, work);
  }

  /**
   * Removes the trace headers of a request that an instrumented client forwards with its own. Without tracing they
   * stay.
   */
  static withoutTrace(headers: Headers): void {
    for (const name of propagation.fields()) headers.delete(name);
  }

  agent({ agent, conversation, provider, model }: {
    readonly agent: string;
    readonly conversation: string;
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

  chat(options: ChatOptions): Chat {
    const { captureContent } = this;
    return new SpanChat(options, { tracer: this.#tracer, instruments: this.#instruments, captureContent });
  }

  tool({ name, callId, agent, args, parent }: {
    readonly name: string;
    readonly callId?: string | undefined;
    readonly agent: string;
    readonly args: unknown;
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

  recordCosts(
    { usd = 0, baselineUsd = 0, promptTokens = 0, cachedTokens = 0 }: {
      readonly usd?: number;
      readonly baselineUsd?: number;
      readonly promptTokens?: number;
      readonly cachedTokens?: number;
    },
    model: string,
  ): void {
    const { cost, baselineCost, promptTokens: prompts, cachedTokens: cached } = this.#instruments;
    const facts = { "gen_ai.request.model": model };
    const attributes = [
      [cost, usd],
      [baselineCost, baselineUsd],
      [prompts, promptTokens],
      [cached, cachedTokens],
    ] as const;
    for (const [figure, value] of attributes) if (value > 0) figure(value, facts);
  }

  /** Counts originals of evicted text that a model recalled. */
  recalled(count: number): void {
    this.#instruments.recalls(count);
  }

  /**
   * Counts a failure after which a request continued: `request`, `session`: forwarded unchanged, once or from now on;
   * `reply`, `long_reply`, `stream`: the reply was forwarded unread, because of its length, or from some point on;
   * `usage`: no recorded cost; `recall`: no answer; `memory`: not stored; `keep_alive`: no cache keep-alive; `store`: state
   * not stored or found.
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
      | "keep_alive"
      | "store",
  ): void {
    this.#instruments.failOpens(1, { "tare.fail_open.cause": cause });
  }
}

class SpanChat extends SpanOperation implements Chat {
  readonly #labels: Facts;
  readonly #instruments: Instruments;
  readonly #captureContent: boolean;
  readonly #sentMs = performance.now();
  #hasBegun = false;

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

  took(usage: Usage): void {
    const { promptTokens, outputTokens, cachedTokens, cacheWriteTokens, estimated } = usage;
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
      ...billingOf(usage),
    });
  }

  planned({ rewrites, saved, entry }: PlannedChat): void {
    const { rewrites: rewritten, savedTokens, savedCostUnits, predictedTokens, reportedTokens } =
      this.#instruments;
    for (const { mechanism, tokensBefore, tokensAfter } of rewrites) {
      const attributes = {
        "tare.rewrite.mechanism": mechanism,
        "tare.rewrite.cause": causeOf(mechanism, entry),
      };
      rewritten(1, attributes);
      this.note("tare.rewrite", {
        ...attributes,
        "tare.rewrite.tokens_before": whole(tokensBefore),
        "tare.rewrite.tokens_after": whole(tokensAfter),
      });
    }
    let sum = 0;
    for (const [mechanism, tokens] of Object.entries(saved)) {
      sum += tokens;
      // Tool lookups cost tokens, and counters can't decrease.
      if (tokens > 0) savedTokens(tokens, { ...this.#labels, "tare.mechanism": mechanism });
    }
    this.set({ "tare.saved.tokens": whole(sum) });
    if (!entry) return;
    const { usage, predictedCachedTokens, costUnits, baselineCostUnits } = entry;
    savedCostUnits(baselineCostUnits - costUnits, this.#labels);
    this.set({
      "tare.saved.cost_units": baselineCostUnits - costUnits,
      "tare.cache.predicted_tokens": whole(predictedCachedTokens),
    });
    if (usage.estimated) return;
    predictedTokens(predictedCachedTokens, this.#labels);
    reportedTokens(usage.cachedTokens, this.#labels);
  }
}

/** Returns what decides a call's price besides its tokens. */
function billingOf({ tier, region, model, serverTools, innerCalls, reportedUsd }: Usage): Facts {
  return {
    ...(tier !== undefined && { "tare.usage.tier": tier }),
    ...(region !== undefined && { "tare.usage.region": region }),
    ...(model !== undefined && { "tare.usage.served_by": model }),
    ...(serverTools && { "tare.usage.server_tools": JSON.stringify(serverTools) }),
    ...(innerCalls && { "tare.usage.inner_calls": JSON.stringify(innerCalls) }),
    ...(reportedUsd !== undefined && { "tare.usage.reported_usd": reportedUsd }),
  };
}

type PlannedChat = Parameters<Chat["planned"]>[0];

function causeOf(mechanism: string, entry: PlannedChat["entry"]): string {
  if (mechanism === "planner") return entry?.decision?.cause === "price" ? "price" : "window";
  if (mechanism === "truncate") return "ingestion";
  return mechanism === "pins" ? "requested" : "trigger";
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

interface Part {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface GenAiMessage {
  readonly role: string;
  readonly parts: readonly Part[];
  readonly finish_reason?: string;
}

function inputMessages(messages: readonly Message[]): readonly GenAiMessage[] {
  return messages.map((message) => ({ role: message.role, parts: partsOf(message) }));
}

function outputMessages(
  messages: readonly Message[],
  finishReason = "",
): readonly GenAiMessage[] {
  const finish_reason = finishReason === "tool_calls" ? "tool_call" : finishReason;
  return [{ role: "assistant", parts: messages.flatMap(partsOf), finish_reason }];
}

/** Returns the required fields of tools as `gen_ai.tool.definitions`. */
function toolDefinitions(tools: readonly ToolDefinition[]): readonly Part[] {
  return tools.map(({ type, function: { name } }) => ({ type, name }));
}

function partsOf(message: Message): readonly Part[] {
  if (message.role === "tool") {
    const { tool_call_id: id, content } = message;
    return [{ type: "tool_call_response", id, response: contentText(content) }];
  }
  const { content } = message;
  const text = typeof content === "string"
    ? (content === "" ? [] : [{ type: "text", content }])
    : (content ?? []).map(partOf);
  return message.role === "assistant" ? [...text, ...(message.tool_calls ?? []).map(callPart)] : text;
}

/** Returns a part without the content of images, audio and files. */
function partOf(part: ContentPart): Part {
  return part.type === "text" ? { type: "text", content: part.text } : { type: part.type };
}

function callPart(call: ToolCall): Part {
  const { name, arguments: text } = describeCall(call);
  return { type: "tool_call", id: call.id, name, arguments: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
