import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import type { Agent } from "./agent.ts";
import { billOf } from "./bill.ts";
import { isSummary } from "./model.ts";
import { play, type Played, RULES, type Scenario } from "./play.ts";
import type { ReadRequest } from "./protocols/protocol.ts";
import { PROTOCOLS, type ProviderCall } from "./provider.ts";

/** Result of a scenario. Costs are of prompts, in units of one uncached token. */
export interface Compared {
  readonly direct: number;
  readonly through: number;
  /** Lowest possible bill: each conversation's first prompt, carried, and everything new, once. */
  readonly least: number;
  readonly booked: number;
  readonly claimed: number;
  /**
   * Whether the agent itself lets the cache serve its conversation: it sets breakpoints, and only summaries
   * break the prefix.
   */
  readonly caches: boolean;
  /** Largest error of the expected cache reads, as a share of the prompt, beyond one block. */
  readonly missed: number;
}

/** Plays a scenario with and without the gateway, which may not break, lose or change anything. */
export async function compare(agent: Agent, scenario: Scenario): Promise<Compared> {
  const direct = await play(agent, scenario, { through: false });
  const reports = Object.values(scenario.plans).flatMap(({ report }) => report ?? []);
  for (const report of reports) assertComplete(direct, report);
  assertEquals(summaries(direct).length > 0, scenario.compacts !== undefined);
  const through = await play(agent, scenario, { through: true });
  assertEquals(through.files, direct.files);
  assertEquals(through.ended.map(({ code }) => code), direct.ended.map(({ code }) => code));
  for (const failure of Object.values(scenario.failures ?? {})) {
    for (const { calls } of [direct, through]) assert(calls.some(({ status }) => status === failure));
  }
  assertEquals(alien(through), alien(direct));
  assertLessOrEqual(refusals(through), refusals(direct));
  assertEquals(passedOn(through), passedOn(direct));
  const visible = Math.min(...working(direct.calls).map(images));
  assertEquals(visible > 0, scenario.needs === "images");
  assertEquals(Math.min(...working(through.calls).map(images)), visible);
  for (const { turn } of working(through.calls)) {
    assert(
      turn.entries.some((item) => item.type === "text" && item.text.includes(RULES.trim())),
      "the rules are gone",
    );
  }
  const compacts = agent.countsItself && scenario.compacts ? "always" : scenario.compacts;
  assertEquals(summaries(through).length > 0, compacts === "always");
  assertLessOrEqual(summaries(through).length, summaries(direct).length);
  for (const { pieces } of summaries(through)) {
    assert(
      !/\[elided: \d+ messages/.test(pieces.map(({ key }) => key).join("\n")),
      "a summary of unknown content was requested",
    );
  }
  const served = through.calls.filter(({ status }) => status === 200);
  const [own, rewrites] = [breaks(answered(through)), epochs(through)];
  // A rewrite may follow a prefix break of the agent. A summary request restores evicted content for itself.
  assertLessOrEqual(breaks(served), own + rewrites + 2 * summaries(through).length);
  assertLessOrEqual(own === 0 ? rewrites : 0, breaks(served));
  assertLessOrEqual(callsOf(through), Math.max(...through.calls.map(({ usage }) => usage.prompt)));
  assertEquals(sessions(through).size, new Set(working(direct.calls).map(conversationOf)).size);
  const { costUnits: booked = NaN, baselineCostUnits: baseline = NaN } = through.ledger?.planned ?? {};
  return {
    direct: costOf(direct),
    through: costOf(through),
    least: leastOf(direct),
    booked,
    claimed: baseline - booked,
    caches: own <= summaries(through).length && marked(direct) > direct.calls.length / 2,
    missed: missed(through),
  };
}

/** Checks that the report contains the rule and the facts. */
function assertComplete({ files, ended }: Played, report: string): void {
  const text = files[report];
  assert(
    text !== undefined,
    `${report} is missing: ${ended.map(({ output }) => output.slice(-2000)).join("\n")}`,
  );
  assert(!/lost/.test(text), text);
}

function passedOn({ others }: Played): readonly string[] {
  return others.filter((route) => !["GET /v1/responses", "GET /v1/models"].includes(route)).sort();
}

function marked({ calls }: Played): number {
  return calls.filter(({ usage, pieces }) => usage.written === undefined || pieces.at(-1)?.mark !== undefined)
    .length;
}

function refusals({ exchanges }: Played): number {
  return exchanges.filter(({ status }) => status >= 400 && status < 500 && status !== 429).length;
}

function costOf({ calls }: Played): number {
  return calls.reduce((sum, { cost }) => sum + cost, 0);
}

/**
 * Returns the lowest possible cost: each prompt's tools, instructions and question from the cache, and
 * everything new once.
 */
function leastOf({ calls }: Played): number {
  const last = new Map<string, { readonly first: number; readonly prompt: number }>();
  let least = 0;
  for (const call of calls.filter(({ status }) => status === 200)) {
    const { prompt, written } = call.usage;
    const prices = written === undefined ? "openai" : "anthropic-5m";
    const { first, prompt: before } = last.get(conversationOf(call)) ?? { first: prompt, prompt: 0 };
    const carried = before === 0 ? 0 : first;
    const fresh = Math.max(0, prompt - before);
    least += billOf({ prompt: carried + fresh, cached: carried, written: fresh, output: 0 }, prices);
    last.set(conversationOf(call), { first, prompt });
  }
  return least;
}

function summaries({ calls }: Played): readonly ProviderCall[] {
  return calls.filter(({ reply }) => reply && isSummary(reply));
}

/** Returns the requests of working agents, without those for titles and summaries. */
function working<T extends ReadRequest>(requests: readonly T[]): readonly T[] {
  return requests.filter(({ turn }) => turn.tools.length > 0);
}

/** Returns the conversation of a request, identified by its tools and first plan, also in a summary. */
function conversationOf({ turn: { entries, tools } }: ReadRequest): string {
  const text = entries.map((item) => item.type === "text" && item.role !== "system" ? item.text : "").join(
    "\n",
  );
  return [/\bplan:([A-Z]+)/.exec(text)?.[1], ...tools.filter((name) => name !== "recall")].join();
}

function images({ body }: ProviderCall): number {
  return [...JSON.stringify(body).matchAll(/"type":"(?:image|image_url|input_image)"/g)].length;
}

/** Returns texts that only the gateway can have written. */
function alien({ ended, exchanges }: Played): readonly string[] {
  const seen = [...ended.map(({ output }) => output), ...exchanges.map(({ answer }) => answer)].join("\n");
  return [...new Set(seen.match(/\[elided\b|"name": ?"recall"|\btare\b/gi))];
}

function answered({ exchanges }: Played): readonly ReadRequest[] {
  return exchanges.flatMap(({ path, body, status }) => {
    const protocol = PROTOCOLS.find((protocol) => protocol.path === path);
    return protocol && status === 200 && body !== "" ? [protocol.read(JSON.parse(body))] : [];
  });
}

/** Counts the prompts that extend no earlier one of the same agent. */
function breaks(requests: readonly ReadRequest[]): number {
  const last = new Map<string, readonly string[]>();
  let breaks = 0;
  for (const request of working(requests)) {
    const before = last.get(conversationOf(request)) ?? [];
    const keys = request.pieces.map(({ key }) => key);
    if (before.slice(0, keys.length).some((key, at) => key !== keys[at])) breaks++;
    last.set(conversationOf(request), keys);
  }
  return breaks;
}

function sessions({ exchanges }: Played): ReadonlyMap<string, number> {
  const epochs = new Map<string, number>();
  for (const { body, headers } of exchanges) {
    const id = headers.get("x-tare-session");
    if (id === null || (JSON.parse(body).tools ?? []).length === 0) continue;
    epochs.set(id, Math.max(epochs.get(id) ?? 0, Number(headers.get("x-tare-epoch"))));
  }
  return epochs;
}

function epochs(played: Played): number {
  return [...sessions(played).values()].reduce((sum, epochs) => sum + epochs, 0);
}

function callsOf({ exchanges }: Played): number {
  return Math.max(0, ...exchanges.flatMap(({ answer }) => usages(answer)).map(promptTokens));
}

const BLOCK = 128;
const MIN_TOKENS = 1024;

function missed({ calls, exchanges }: Played): number {
  // After a recall the answer's usage is of another prompt than its headers, which are written before.
  const recalling = new Set(
    calls.flatMap(({ usage }, at) =>
      calls[at - 1]?.reply?.calls.some(({ name }) => name === "recall") ? [usage.prompt] : []
    ),
  );
  return Math.max(
    0,
    ...exchanges.flatMap((exchange) => {
      const { headers, answer, arrivedAt, ended } = exchange;
      // Concurrent requests may serve each other; how is unknown.
      const isConcurrent = exchanges.some((other) =>
        other !== exchange && other.body !== "" && other.arrivedAt < ended && arrivedAt < other.ended
      );
      if (isConcurrent) return [];
      const predicted = Number(headers.get("x-tare-cached-predicted"));
      const sent = Number(headers.get("x-tare-tokens-sent"));
      const usage = usages(answer).findLast((usage) => promptTokens(usage) > 0);
      if (!sent || !usage || recalling.has(promptTokens(usage))) return [];
      const prompt = promptTokens(usage);
      // Headers count with Tare's counter, usage with the provider's; blocks end by the provider's count.
      const expected = predicted * prompt / sent;
      const smallest = Math.min(expected, cachedOf(usage)) < MIN_TOKENS ? MIN_TOKENS : 0;
      const missed = Math.abs(expected - cachedOf(usage)) - BLOCK - smallest;
      return [Math.max(0, missed) / prompt];
    }),
  );
}

function usages(answer: string): readonly Reports[] {
  return [...answer.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => {
    const event = JSON.parse(data);
    return event.usage ?? event.message?.usage ?? event.response?.usage ?? {};
  });
}

function promptTokens(usage: Reports): number {
  return (usage.prompt_tokens ?? 0) + (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0);
}

function cachedOf(usage: Reports): number {
  return usage.cache_read_input_tokens ??
    (usage.prompt_tokens_details ?? usage.input_tokens_details)?.cached_tokens ?? 0;
}

/** Token counts of a prompt, as the protocols report them. */
type Reports =
  & Readonly<
    Partial<
      Record<
        "prompt_tokens" | "input_tokens" | "cache_creation_input_tokens" | "cache_read_input_tokens",
        number | null
      >
    >
  >
  & Readonly<
    Partial<Record<"prompt_tokens_details" | "input_tokens_details", { readonly cached_tokens: number }>>
  >;
