import type { InnerCall, Usage } from "@tare/messages";
import { addUsage } from "@tare/messages/internal";
import { asRecord, isRecord, type JsonRecord, listOf } from "./json.ts";

/** Billing facts of a usage, in addition to its tokens. */
export type Billing = Pick<Usage, "tier" | "region" | "serverTools" | "reportedUsd">;

const STANDARD_TIERS: readonly string[] = ["standard", "default", "auto", "standard_only", "on_demand"];
const ANY_REGION: readonly string[] = ["global", "not_available"];

const MAX_NAME = 64;

/** xAI's unit of `cost_in_usd_ticks`. https://docs.x.ai/developers/cost-tracking */
const TICKS_PER_USD = 1e10;

/**
 * Reads what decides the price of a reply besides its tokens. `reply` is the whole reply: some protocols
 * report its tier and its tools outside the usage.
 */
export function readBilling(usage: JsonRecord, reply: JsonRecord): Billing {
  const tiers = [usage.service_tier ?? reply.service_tier, usage.speed ?? reply.speed]
    .flatMap((name) => nameOf(name, STANDARD_TIERS));
  const [region] = nameOf(usage.inference_geo, ANY_REGION);
  const serverTools = usedTools(usage, reply);
  const reportedUsd = readCost(usage);
  return {
    ...(tiers.length > 0 && { tier: tiers.join(" and ") }),
    ...(region !== undefined && { region }),
    ...(serverTools.size > 0 && { serverTools: Object.fromEntries(serverTools) }),
    ...(reportedUsd !== undefined && { reportedUsd }),
  };
}

function nameOf(value: unknown, usual: readonly string[]): string[] {
  const name = typeof value === "string" ? value.trim().toLowerCase().slice(0, MAX_NAME) : "";
  return name === "" || usual.includes(name) ? [] : [name];
}

/**
 * Cost in US dollars: of OpenRouter (plus the upstream's bill for the user's own key), Perplexity, DeepInfra
 * and xAI.
 */
function readCost(usage: JsonRecord): number | undefined {
  const { cost, cost_details: details, is_byok: hasOwnKey, cost_in_usd_ticks: ticks } = usage;
  const own = amountOf(cost) ?? amountOf(asRecord(cost)?.total_cost) ?? amountOf(usage.estimated_cost);
  if (own === undefined) {
    const counted = amountOf(ticks);
    return counted === undefined ? undefined : counted / TICKS_PER_USD;
  }
  const upstream = hasOwnKey === true ? amountOf(asRecord(details)?.upstream_inference_cost) : undefined;
  return own + (upstream ?? 0);
}

function amountOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** Calls in responses that the client or Tare answers, or that cost nothing but tokens. */
const CLIENT_ITEMS: readonly unknown[] = [
  "function_call",
  "custom_tool_call",
  "computer_call",
  "local_shell_call",
  "apply_patch_call",
  "tool_search_call",
];

function usedTools(usage: JsonRecord, reply: JsonRecord): Map<string, number> {
  const used = new Map<string, number>();
  const use = (name: string, uses: number) => {
    if (uses > 0 && NAME.test(name)) used.set(name, (used.get(name) ?? 0) + uses);
  };
  const counts = asRecord(usage.server_tool_use) ?? asRecord(usage.server_tool_use_details) ??
    asRecord(usage.server_side_tool_usage_details) ?? {};
  for (const [name, uses] of Object.entries(counts)) {
    use(name.toLowerCase().replace(/_(?:requests|calls|uses)$/, ""), amountOf(uses) ?? 0);
  }
  use("search_source", amountOf(usage.num_sources_used) ?? 0);
  use("search_query", amountOf(usage.num_search_queries) ?? 0);
  const isCounted = used.size > 0;
  for (const item of listOf(reply.output).filter(isRecord)) {
    if (!isCounted) use(itemTool(item), 1);
  }
  // Messages report searches and fetches only; code that runs with them is free.
  const isFree = used.has("web_search") || used.has("web_fetch");
  for (const block of listOf(reply.content).filter(isRecord)) {
    const name = String(block.name);
    const isCode = block.type === "server_tool_use" && /(?:^|_)code_execution$/.test(name);
    if (isCode && !isFree && !isCounted) use("code_execution", 1);
  }
  return used;
}

const NAME = /^[a-z][a-z0-9_]{0,63}$/;

function itemTool({ type, action, environment }: JsonRecord): string {
  const [, name = ""] = /^(\w+)_call$/.exec(String(type)) ?? [];
  if (name === "" || CLIENT_ITEMS.includes(type)) return "";
  // Opening a found page and searching in it cost nothing.
  const acted = asRecord(action)?.type;
  if (name === "web_search" && acted !== undefined && acted !== "search") return "";
  if (name === "shell") return String(asRecord(environment)?.type).startsWith("container") ? name : "";
  return name;
}

type Tokens = Omit<InnerCall, "type" | "model">;

/** A reply's usage by model: the reply's own, and the calls inside it. */
export interface Iterations {
  /** Totals of the reply's own reads. Absent: as reported outside the list. */
  readonly own?: Tokens;
  /** The first of several reads. Absent: the prompt was read once. */
  readonly first?: Tokens;
  /** Model that served the reply in place of the requested one. */
  readonly model?: string;
  readonly innerCalls: readonly InnerCall[];
}

/**
 * Reads Anthropic's `iterations`, the model calls of one reply. The fields outside the list exclude
 * compactions and advisors, and of several reads they may contain the first only.
 */
export function readIterations(
  list: unknown,
  tokensOf: (entry: JsonRecord) => Tokens | undefined,
): Iterations {
  const entries = listOf(list).filter(isRecord).flatMap((entry) => {
    const tokens = tokensOf(entry);
    const [type = "message"] = nameOf(entry.type, []);
    const [model] = nameOf(entry.model, []);
    // Every cache write is reported.
    return tokens ? [{ type, ...(model !== undefined && { model }), cacheWriteTokens: 0, ...tokens }] : [];
  });
  const served = entries.find(({ type }) => type === "fallback_message")?.model;
  const isOwn = ({ type, model }: InnerCall) =>
    type === "fallback_message" || type === "message" && (served === undefined || model === served);
  const reads = entries.filter(isOwn).map(({ type: _, model: __, ...tokens }) => tokens);
  const [first, ...more] = reads;
  return {
    ...(first && { own: more.reduce<Tokens>(addUsage, first) }),
    ...(first && more.length > 0 && { first }),
    ...(served !== undefined && { model: served }),
    innerCalls: entries.filter((entry) => !isOwn(entry)),
  };
}
