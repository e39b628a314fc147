export type Value = readonly [kind: string, value: unknown];

export type Attributes = Readonly<Record<string, Value>>;

export interface Span {
  readonly scope: string;
  readonly name: string;
  /** Kind by OTLP's numbers: 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  /** Id of the parent; empty for a root. */
  readonly parentSpanId: string;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly attributes: Attributes }[];
  /** Status by OTLP's numbers: 0 unset, 2 error. */
  readonly status: number;
}

/** Point of a metric, the last one sent for its attributes. */
export interface Point {
  readonly scope: string;
  readonly name: string;
  readonly unit: string;
  readonly type: "sum" | "histogram" | "gauge";
  readonly attributes: Attributes;
  /** Value of a sum, or number of values of a histogram. */
  readonly value: number;
  readonly bounds?: readonly number[];
}

/** Telemetry collector: OTLP over HTTP in JSON. */
export interface OtlpReceiver {
  /** Variables that configure a program to send to it, with a short timeout: late data is lost. */
  readonly env: Readonly<Record<string, string>>;
  readonly paths: ReadonlySet<string>;
  readonly text: () => string;
  readonly resources: () => readonly Attributes[];
  readonly spans: () => readonly Span[];
  readonly points: () => readonly Point[];
  readonly close: () => Promise<void>;
}

// deno-lint-ignore no-explicit-any
type Json = any;

/** Starts a collector on loopback that stores what it receives. */
export function otlpReceiver(): OtlpReceiver {
  const texts: string[] = [];
  const paths = new Set<string>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    paths.add(new URL(request.url).pathname);
    texts.push(await request.text());
    return Response.json({});
  });
  const all = (kind: string): Json[] => texts.flatMap((text) => JSON.parse(text)[kind] ?? []);
  return {
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${server.addr.port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_TIMEOUT: "60000",
    },
    paths,
    text: () => texts.join("\n"),
    resources: () =>
      ["resourceSpans", "resourceMetrics"].flatMap(all).map(({ resource }) =>
        attributesOf(resource.attributes)
      ),
    spans: () =>
      all("resourceSpans").flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ scope, spans }: Json) =>
          spans.map((span: Json): Span => ({
            ...span,
            scope: scope.name,
            attributes: attributesOf(span.attributes),
            events: span.events.map((event: Json) => ({
              name: event.name,
              attributes: attributesOf(event.attributes),
            })),
            status: span.status.code,
          }))
        )
      ),
    points: () => {
      const points = all("resourceMetrics").flatMap(({ scopeMetrics }) =>
        scopeMetrics.flatMap(({ scope, metrics }: Json) =>
          metrics.flatMap((one: Json) => pointsOf(scope, one))
        )
      );
      const last = new Map<string, Point>();
      for (const point of points) {
        last.set(JSON.stringify([point.scope, point.name, Object.entries(point.attributes).sort()]), point);
      }
      return [...last.values()];
    },
    close: () => server.shutdown(),
  };
}

function pointsOf({ name: scope }: Json, metric: Json): Point[] {
  const { name, unit } = metric;
  const type = metric.sum ? "sum" : metric.histogram ? "histogram" : "gauge";
  return metric[type].dataPoints.map((point: Json): Point => ({
    ...{ scope, name, unit, type, attributes: attributesOf(point.attributes) },
    value: Number(point.count ?? point.asDouble ?? point.asInt),
    ...(point.explicitBounds && { bounds: point.explicitBounds }),
  }));
}

function attributesOf(attributes: Json[]): Attributes {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.entries(value)[0] as Value]));
}
