import {
  type Attributes,
  type Context,
  context,
  metrics,
  propagation,
  ROOT_CONTEXT,
  type Span as ApiSpan,
  type SpanOptions,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorage } from "node:async_hooks";

export interface RecordedSpan {
  readonly scope: string;
  readonly name: string;
  readonly parent: string | undefined;
  readonly attributes: Record<string, unknown>;
  readonly events: string[];
  ended: boolean;
  failed: boolean;
}

/** Telemetry since {@linkcode recordTelemetry} was called. */
export interface Recorder {
  readonly spans: readonly RecordedSpan[];
  /** Returns sums and numbers of values of a metric, by one of its attributes. */
  readonly count: (metric: string, attribute?: string) => Readonly<Record<string, number>>;
}

/** Sets up an exporter that stores what it receives, for the rest of the test file. */
export function recordTelemetry(): Recorder {
  for (const api of [trace, metrics, context, propagation]) api.disable();
  const spans: RecordedSpan[] = [];
  const points: { readonly name: string; readonly value: number; readonly attributes: Attributes }[] = [];
  const bySpan = new WeakMap<ApiSpan, RecordedSpan>();
  const startSpan = (scope: string) => (name: string, options: SpanOptions = {}, within?: Context) => {
    const around = trace.getSpan(within ?? context.active());
    const recorded: RecordedSpan = {
      ...{ scope, name, parent: around && bySpan.get(around)?.name, events: [], ended: false, failed: false },
      attributes: { ...options.attributes },
    };
    spans.push(recorded);
    const span = {
      isRecording: () => !recorded.ended,
      setAttributes: (more: Attributes) => Object.assign(recorded.attributes, more),
      setStatus: () => recorded.failed = true,
      addEvent: (event: string) => recorded.events.push(event),
      end: () => recorded.ended = true,
    } as unknown as ApiSpan;
    bySpan.set(span, recorded);
    return span;
  };
  trace.setGlobalTracerProvider({ getTracer: (scope) => ({ startSpan: startSpan(scope) }) as never });
  const point = (name: string) => (value: number, attributes: Attributes = {}) =>
    points.push({ name, value, attributes });
  const sum = (name: string) => ({ add: point(name) });
  const histogram = (name: string) => ({
    record: (_: number, attributes?: Attributes) => point(name)(1, attributes),
  });
  const meter = { createCounter: sum, createUpDownCounter: sum, createHistogram: histogram };
  metrics.setGlobalMeterProvider({ getMeter: () => meter as never });
  const storage = new AsyncLocalStorage<Context>();
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (now, work, self, ...args) => storage.run(now, () => work.call(self as never, ...args)),
    bind: (now, work) =>
      (typeof work === "function"
        ? storage.run(now, () => AsyncLocalStorage.bind(work as never))
        : work) as never,
    enable() {
      return this;
    },
    disable() {
      return this;
    },
  });
  propagation.setGlobalPropagator({
    fields: () => ["traceparent"],
    inject() {},
    extract(within, carrier, { get }) {
      const header = get(carrier, "traceparent");
      if (header === undefined) return within;
      const span = startSpan("client")(String(header));
      return trace.setSpan(within, span);
    },
  });
  return {
    spans,
    count: (metric, attribute = "") => {
      const counts: Record<string, number> = {};
      for (const { name, value, attributes } of points) {
        if (name !== metric) continue;
        const key = String(attributes[attribute] ?? "");
        counts[key] = (counts[key] ?? 0) + value;
      }
      return counts;
    },
  };
}
