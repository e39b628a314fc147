import type { Attributes, Point, Span } from "./otlp_receiver.ts";

/**
 * Rules of OpenTelemetry's semantic conventions for generative AI for Tare's spans and metrics, and Tare's
 * additions: https://github.com/open-telemetry/semantic-conventions-genai, autumn 2026.
 */
interface Rule {
  readonly scope: RegExp;
  readonly name: RegExp;
  readonly required: Readonly<Record<string, Kind>>;
  readonly allowed: Readonly<Record<string, Kind>>;
}

type Kind = "string" | "int" | "double" | "bool" | "array";

interface SpanRule extends Rule {
  readonly kind: number;
  /** Names of allowed parent spans; absent: any parent or none. */
  readonly parent?: RegExp;
  readonly events?: Readonly<Record<string, Readonly<Record<string, Kind>>>>;
}

interface MetricRule extends Rule {
  readonly type: Point["type"];
  readonly unit: string;
  readonly bounds?: readonly number[];
}

const OWN = /^@tare\/(server|gateway)$/;
const ERROR = { "error.type": "string" } as const;
const OPERATION = { "gen_ai.operation.name": "string" } as const;
const PROVIDER = { "gen_ai.provider.name": "string" } as const;
const MODEL = { "gen_ai.request.model": "string" } as const;
const SERVER = { "server.address": "string", "server.port": "int" } as const;
const CONVERSATION = { "gen_ai.conversation.id": "string" } as const;

const REWRITE = { "tare.rewrite.mechanism": "string", "tare.rewrite.cause": "string" } as const;

const SPANS: readonly SpanRule[] = [
  {
    scope: /^@tare\/server$/,
    name: /^invoke_agent (tare|subagent)$/,
    kind: 1,
    required: {
      ...{ ...OPERATION, ...PROVIDER, ...MODEL, ...CONVERSATION },
      "gen_ai.agent.name": "string",
      "tare.turn.end_reason": "string",
    },
    allowed: ERROR,
  },
  {
    scope: OWN,
    name: /^chat( \S+)?$/,
    kind: 3,
    required: { ...OPERATION, ...PROVIDER },
    allowed: {
      ...{ ...MODEL, ...ERROR, ...SERVER, ...CONVERSATION },
      "gen_ai.request.stream": "bool",
      "gen_ai.request.temperature": "double",
      "gen_ai.request.top_p": "double",
      "gen_ai.request.frequency_penalty": "double",
      "gen_ai.request.presence_penalty": "double",
      "gen_ai.request.seed": "int",
      "gen_ai.response.id": "string",
      "gen_ai.response.finish_reasons": "array",
      "gen_ai.response.time_to_first_chunk": "double",
      "gen_ai.usage.input_tokens": "int",
      "gen_ai.usage.output_tokens": "int",
      "gen_ai.usage.cache_read.input_tokens": "int",
      "gen_ai.usage.cache_creation.input_tokens": "int",
      "gen_ai.input.messages": "string",
      "gen_ai.output.messages": "string",
      "gen_ai.tool.definitions": "string",
      "tare.saved.tokens": "int",
      "tare.saved.cost_units": "double",
      "tare.cache.predicted_tokens": "int",
    },
    events: {
      "tare.rewrite": { ...REWRITE, "tare.rewrite.tokens_before": "int", "tare.rewrite.tokens_after": "int" },
    },
  },
  {
    scope: /^@tare\/server$/,
    name: /^execute_tool \S+$/,
    kind: 1,
    parent: /^invoke_agent /,
    required: {
      ...OPERATION,
      "gen_ai.tool.name": "string",
      "gen_ai.tool.type": "string",
      "gen_ai.tool.call.id": "string",
      "gen_ai.agent.name": "string",
    },
    allowed: { ...ERROR, "gen_ai.tool.call.arguments": "string", "gen_ai.tool.call.result": "string" },
  },
  // Deno's own spans, with the status as text, which the conventions define as an integer.
  ...[2, 3].map((kind): SpanRule => ({
    scope: /^deno$/,
    name: /^(DELETE|GET|HEAD|POST)$/,
    kind,
    required: { "http.request.method": "string", "url.full": "string" },
    allowed: {
      "url.scheme": "string",
      "url.path": "string",
      "url.query": "string",
      "http.response.status_code": "string",
      ...ERROR,
    },
  })),
];

const CHAT = { ...OPERATION, ...PROVIDER } as const;
const CHAT_MORE = { ...MODEL, ...SERVER } as const;
const DURATIONS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

const METRICS: readonly MetricRule[] = [
  {
    ...{ scope: OWN, name: /^gen_ai\.client\.token\.usage$/, type: "histogram", unit: "{token}" },
    bounds: [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864],
    required: { ...CHAT, "gen_ai.token.type": "string" },
    allowed: CHAT_MORE,
  },
  {
    ...{ scope: OWN, name: /^gen_ai\.client\.operation\.duration$/, type: "histogram", unit: "s" },
    bounds: DURATIONS,
    required: CHAT,
    allowed: { ...CHAT_MORE, ...ERROR },
  },
  {
    ...{ scope: OWN, name: /^gen_ai\.invoke_agent\.duration$/, type: "histogram", unit: "s" },
    bounds: [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6],
    required: { "gen_ai.agent.name": "string" },
    allowed: ERROR,
  },
  {
    ...{ scope: OWN, name: /^gen_ai\.execute_tool\.duration$/, type: "histogram", unit: "s" },
    bounds: DURATIONS,
    required: { "gen_ai.tool.name": "string" },
    allowed: { ...ERROR, "gen_ai.tool.type": "string", "gen_ai.agent.name": "string" },
  },
  own("tare.saved.tokens", "{token}", { ...CHAT, "tare.mechanism": "string" }, CHAT_MORE),
  own("tare.saved.cost_units", "{cost_unit}", CHAT, CHAT_MORE),
  own("tare.cache.predicted_tokens", "{token}", CHAT, CHAT_MORE),
  own("tare.cache.reported_tokens", "{token}", CHAT, CHAT_MORE),
  own("tare.rewrites", "{rewrite}", REWRITE),
  own("tare.recalls", "{recall}", {}),
  own("tare.fail_opens", "{failure}", { "tare.fail_open.cause": "string" }),
  own("tare.cost", "usd", MODEL),
  own("tare.cost.baseline", "usd", MODEL),
  own("tare.prompt.tokens", "{token}", MODEL),
  own("tare.prompt.cached_tokens", "{token}", MODEL),
];

function own(
  name: string,
  unit: string,
  required: Rule["required"],
  allowed: Rule["allowed"] = {},
): MetricRule {
  const whole = new RegExp(`^${name.replaceAll(".", "\\.")}$`);
  return { scope: OWN, name: whole, type: "sum", unit, required, allowed };
}

/** Returns the errors of spans, a sentence each. */
export function faultsOfSpans(spans: readonly Span[]): string[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  return spans.flatMap((span) => {
    const rule = SPANS.find((rule) =>
      rule.scope.test(span.scope) && rule.name.test(span.name) && rule.kind === span.kind
    );
    if (!rule) return [`${span.scope} ${span.name}: no such span of kind ${span.kind}`];
    const faults = faultsOf(span.attributes, rule);
    const parent = byId.get(span.parentSpanId);
    if (rule.parent && !rule.parent.test(parent?.name ?? "")) faults.push(`in ${parent?.name}`);
    if (parent && parent.traceId !== span.traceId) faults.push("in another trace");
    for (const event of span.events) {
      const required = rule.events?.[event.name];
      if (!required) faults.push(`no such event: ${event.name}`);
      else faults.push(...faultsOf(event.attributes, { required, allowed: {} }));
    }
    const failed = "error.type" in span.attributes;
    if (rule.scope === OWN && failed !== (span.status === 2)) faults.push(`status is ${span.status}`);
    const unknown = rule.scope.source === "^deno$" ? [] : nameFaults(span);
    return [...faults, ...unknown].map((fault) => `${span.name}: ${fault}`);
  });
}

function nameFaults({ name, attributes }: Span): string[] {
  const [operation, ...rest] = name.split(" ");
  const value = (key: string) => attributes[key]?.[1];
  const subject = value("gen_ai.tool.name") ??
    (operation === "invoke_agent" ? value("gen_ai.agent.name") : value("gen_ai.request.model"));
  const isRight = value("gen_ai.operation.name") === operation && (subject ?? "") === rest.join(" ");
  return isRight ? [] : [`is not named after ${value("gen_ai.operation.name")} and ${subject}`];
}

/** Returns the errors of metrics, a sentence each. */
export function faultsOfPoints(points: readonly Point[]): string[] {
  return points.filter(({ scope }) => scope.startsWith("@tare/")).flatMap((point) => {
    const rule = METRICS.find((rule) => rule.scope.test(point.scope) && rule.name.test(point.name));
    if (!rule) return [`${point.scope} ${point.name}: no such metric`];
    const faults = faultsOf(point.attributes, rule);
    if (rule.type !== point.type) faults.push(`is a ${point.type}`);
    if (rule.unit !== point.unit) faults.push(`is in ${point.unit}`);
    if (String(rule.bounds) !== String(point.bounds)) faults.push(`has bounds ${point.bounds}`);
    return faults.map((fault) => `${point.name}: ${fault}`);
  });
}

function faultsOf(
  attributes: Attributes,
  { required, allowed }: Pick<Rule, "required" | "allowed">,
): string[] {
  const known: Readonly<Record<string, Kind>> = { ...required, ...allowed };
  return [
    ...Object.keys(required).filter((name) => !(name in attributes)).map((name) => `lacks ${name}`),
    ...Object.entries(attributes).flatMap(([name, [kind]]) => {
      if (!(name in known)) return [`must not have ${name}`];
      return kind === `${known[name]}Value` ? [] : [`${name} is a ${kind}`];
    }),
  ];
}
