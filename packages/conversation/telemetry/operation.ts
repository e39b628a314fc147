import {
  type Context,
  context,
  type Histogram,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from "@opentelemetry/api";

/** What is told of an operation, by the attributes' names. */
export type Facts = Parameters<Operation["set"]>[0];

/** Something that begins and ends: a span, and its duration as a metric. */
export interface Operation {
  /** Whether anybody gets to see what is told of it. */
  readonly isRecording: boolean;
  /** Does some work as part of it: operations that begin there stand in it. */
  within<T>(work: () => T): T;
  /** Adds what has become known. */
  set(facts: Readonly<Record<string, string | number | boolean | string[] | undefined>>): void;
  /** Ends it, with the class of error that it ended with, if it did; what has ended stays as it is. */
  end(errorType?: string): void;
}

/** What an operation is. */
export interface OperationOptions {
  readonly tracer: Tracer;
  /** Name of the span. */
  readonly name: string;
  readonly kind: SpanKind;
  /** What is known of it when it begins. */
  readonly attributes: Facts;
  /** Takes how long it took, in seconds. */
  readonly duration: Histogram;
  /** Those of the attributes by which durations are told apart. */
  readonly labels: Facts;
  /** What it is part of. Default: what runs now. */
  readonly parent?: Operation | undefined;
}

/** An operation as the API has it. */
export class SpanOperation implements Operation {
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
    duration.record((performance.now() - this.#startMs) / 1000, { ...labels, ...error });
    if (errorType !== undefined) {
      this.#span.setAttributes(error);
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end();
  }
}

/** The class of an error by which operations are told apart: its code, or its name. Never its message. */
export function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return "_OTHER";
  if (error.name === "AbortError") return "cancelled";
  if (error.name === "TimeoutError") return "timeout";
  const { code } = error as { readonly code?: unknown };
  return typeof code === "string" ? code : error.name;
}

const HEADERS = {
  keys: (headers: Headers) => [...headers.keys()],
  get: (headers: Headers, name: string) => headers.get(name) ?? undefined,
};

/**
 * Does some work as part of the trace that a request says it belongs to (`traceparent`), for servers that don't see to
 * that themselves.
 */
export function inTraceOf<T>({ headers }: Request, work: () => T): T {
  if (propagation.fields().length === 0 || trace.getActiveSpan()) return work();
  return context.with(propagation.extract(ROOT_CONTEXT, headers, HEADERS), work);
}

/** Remembers what runs now, and does later work as part of it, whoever lets that work be done. */
export function inThisTrace(): <T>(work: () => T) => T {
  const now = context.active();
  return (work) => context.with(now, work);
}

/**
 * Takes from a request's headers those that say which trace it belongs to, if whoever sends it on writes them anew: it is
 * part of an operation of ours then. Where nothing is traced they stay as they came.
 */
export function withoutTrace(headers: Headers): void {
  for (const name of propagation.fields()) headers.delete(name);
}

/** What Deno has of its own exporter, where it is the runtime. */
const denos: { readonly tracerProvider?: unknown } | undefined = (globalThis as {
  readonly ["Deno"]?: { readonly telemetry?: object };
})["Deno"]?.telemetry;

/** A whole number as an attribute. Deno's own exporter takes numbers for fractions, and only a `bigint` for a whole one. */
export function whole(value: number): number {
  const rounded = Math.round(value);
  return denos?.tracerProvider === trace.getTracerProvider() ? BigInt(rounded) as unknown as number : rounded;
}
