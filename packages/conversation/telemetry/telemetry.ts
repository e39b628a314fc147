import {
  type Counter,
  createNoopMeter,
  type Histogram,
  metrics,
  ProxyTracerProvider,
  SpanKind,
  trace,
  type Tracer,
  type UpDownCounter,
} from "@opentelemetry/api";
import { type Chat, type ChatOptions, SpanChat } from "./chat.ts";
import { type Operation, SpanOperation } from "./operation.ts";

/** What telemetry is made with. */
export interface TelemetryOptions {
  /**
   * Whether spans hold what was said: prompts, replies, arguments and results of tools. Default: no. What people said to
   * others then stands in whatever keeps the spans.
   */
  readonly captureContent?: boolean;
}

/** A turn of an agent. */
export interface AgentOptions {
  /** Name of the agent. */
  readonly agent: string;
  /** Id of its session. */
  readonly conversation: string;
  /** Whose model it asks, as the conventions name providers. */
  readonly provider: string;
  /** The model that it asks. */
  readonly model: string;
}

/** A call of a tool. */
export interface ToolOptions {
  readonly name: string;
  /** Id of the call. */
  readonly callId?: string | undefined;
  /** Name of the agent that calls it. */
  readonly agent: string;
  readonly args: unknown;
  /** What it is part of. Default: what runs now. */
  readonly parent?: Operation;
}

/**
 * What could not be done for a request that went on without it: `request`, it was sent as it came; `session`, from now
 * on all of its session's are; `reply`, its answer was passed on unread, `long_reply`, because it is too long; `stream`,
 * the rest of a streamed one was; `usage`, what it took isn't booked; `recall`, a recall wasn't answered; `memory`, one
 * will not be remembered; `store`, what is known of its conversation couldn't be kept, or found.
 */
export type FailOpen =
  | "request"
  | "session"
  | "reply"
  | "long_reply"
  | "stream"
  | "usage"
  | "recall"
  | "memory"
  | "store";

/** Bounds of histograms, as the conventions prescribe them. */
const DURATIONS_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const AGENT_DURATIONS_S = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
/** The powers of four up to 67,108,864. */
const TOKENS = Array.from({ length: 14 }, (_, power) => 4 ** power);

/** The metrics. */
export interface Instruments {
  readonly tokens: Histogram;
  readonly chatDuration: Histogram;
  readonly agentDuration: Histogram;
  readonly toolDuration: Histogram;
  readonly savedTokens: Counter;
  readonly savedTokenUnits: UpDownCounter;
  readonly rewrites: Counter;
  readonly predictedTokens: Counter;
  readonly reportedTokens: Counter;
  readonly recalls: Counter;
  readonly failOpens: Counter;
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
  constructor(scope: string, { captureContent = false }: TelemetryOptions = {}) {
    const provider = trace.getTracerProvider();
    const meter = metrics.getMeter(scope);
    const isTraced = !(provider instanceof ProxyTracerProvider) ||
      provider.getDelegateTracer(scope) !== undefined;
    this.isOn = isTraced || meter !== createNoopMeter();
    this.captureContent = captureContent;
    this.#tracer = provider.getTracer(scope);
    const histogram = (name: string, unit: string, description: string, bounds: number[]) =>
      meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bounds } });
    const counter = (name: string, unit: string, description: string) =>
      meter.createCounter(name, { unit, description });
    this.#instruments = {
      tokens: histogram(
        "gen_ai.client.token.usage",
        "{token}",
        "Number of input and output tokens used.",
        TOKENS,
      ),
      chatDuration: histogram(
        "gen_ai.client.operation.duration",
        "s",
        "GenAI operation duration.",
        DURATIONS_S,
      ),
      agentDuration: histogram(
        "gen_ai.invoke_agent.duration",
        "s",
        "Duration of a turn.",
        AGENT_DURATIONS_S,
      ),
      toolDuration: histogram("gen_ai.execute_tool.duration", "s", "Duration of a tool call.", DURATIONS_S),
      savedTokens: counter("tare.saved.tokens", "{token}", "Tokens that were kept out of prompts."),
      savedTokenUnits: meter.createUpDownCounter("tare.saved.token_units", {
        unit: "{token_unit}",
        description: "What was saved against resending everything; one uncached input token costs 1.",
      }),
      rewrites: counter("tare.rewrites", "{rewrite}", "Rewrites of prompts."),
      predictedTokens: counter(
        "tare.cache.predicted_tokens",
        "{token}",
        "Tokens that the provider's cache was expected to serve.",
      ),
      reportedTokens: counter(
        "tare.cache.reported_tokens",
        "{token}",
        "Tokens of the same calls that it says it served.",
      ),
      recalls: counter("tare.recalls", "{recall}", "Originals that models asked for again."),
      failOpens: counter("tare.fail_opens", "{failure}", "What was passed on because planning failed."),
    };
  }

  /** A turn begins. */
  agent({ agent, conversation, provider, model }: AgentOptions): Operation {
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
  tool({ name, callId, agent, args, parent }: ToolOptions): Operation {
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

  /** A model asked for so many originals of what had left its prompt. */
  recalled(count: number): void {
    this.#instruments.recalls.add(count);
  }

  /** Something could not be done for a request, which went on without it. */
  failedOpen(cause: FailOpen): void {
    this.#instruments.failOpens.add(1, { "tare.fail_open.cause": cause });
  }
}
