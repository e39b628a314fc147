/**
 * Prometheus text format of metrics. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
import type { MetricRegistry } from "./telemetry.ts";
import { Counter, Gauge, Histogram, Registry } from "prom-client";

type Options = Parameters<MetricRegistry["metric"]>[0];
type Facts = Parameters<ReturnType<MetricRegistry["metric"]>>[1];

/** Most series of a metric: names of models and tools come from clients. */
const MAX_SERIES = 500;

const MAX_LABEL = 200;

const OTHER = "_OTHER";

/**
 * Returns a metrics registry in Prometheus' format, with the names of OpenTelemetry's Prometheus exporter. A metric
 * that can't be read is omitted, and `onError` receives the reason.
 */
export function prometheus({ onError }: { readonly onError: (error: unknown) => void }): MetricRegistry {
  const registry = new Registry();
  const metricsByName = new Map<string, ReturnType<MetricRegistry["metric"]>>();
  const about = ({ kind, name, unit, description: help, labels = [] }: Options) => ({
    name: `${plain(name)}${unitOf(unit)}${kind === "sum" ? "_total" : ""}`,
    help,
    labelNames: labels.map(plain),
    registers: [registry],
  });
  const make = (options: Options): ReturnType<MetricRegistry["metric"]> => {
    const labelsOf = labeller(options);
    switch (options.kind) {
      case "sum": {
        const counter = new Counter(about(options));
        return (value, facts) => counter.inc(labelsOf(facts), value);
      }
      case "level": {
        const gauge = new Gauge(about(options));
        return (value, facts) => gauge.inc(labelsOf(facts), value);
      }
      case "histogram": {
        const histogram = new Histogram({ ...about(options), buckets: [...options.bounds ?? []] });
        return (value, facts) => histogram.observe(labelsOf(facts), value);
      }
    }
  };
  return {
    mediaType: registry.contentType,
    metric(options) {
      const figure = metricsByName.get(options.name) ?? make(options);
      metricsByName.set(options.name, figure);
      return figure;
    },
    observe(options, read) {
      const labelsOf = labeller(options);
      const Made = options.kind === "sum" ? Counter : Gauge;
      new Made({
        ...about(options),
        async collect() {
          try {
            const readings = await read();
            this.reset();
            for (const [value, facts] of readings) this.inc(labelsOf(facts), value);
          } catch (error) {
            this.reset();
            this.remove();
            onError(error);
          }
        },
      });
    },
    text: () => registry.metrics(),
  };
}

function labeller({ labels = [] }: Options): (facts: Facts) => Record<string, string> {
  const seen = new Set<string>();
  const named = labels.map((label) => [label, plain(label)] as const);
  return (facts = {}) => {
    const values = named.map(([label, name]) =>
      [name, String(facts[label] ?? "").slice(0, MAX_LABEL)] as const
    );
    const key = JSON.stringify(values);
    const isKnown = seen.has(key) || seen.size < MAX_SERIES;
    if (isKnown) seen.add(key);
    return Object.fromEntries(isKnown ? values : values.map(([name]) => [name, OTHER]));
  };
}

function plain(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_]/g, "_");
}

function unitOf(unit: string): string {
  if (unit.startsWith("{")) return "";
  return unit === "s" ? "_seconds" : `_${unit}`;
}
