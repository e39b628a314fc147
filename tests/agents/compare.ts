import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import type { Agent } from "./agent.ts";
import { billOf } from "./bill.ts";
import { isSummary } from "./model.ts";
import { play, type Played, RULES, type Scenario } from "./play.ts";
import type { ReadRequest } from "./protocols/protocol.ts";
import { PROTOCOLS, type ProviderCall } from "./provider.ts";

/** How a scenario went. Costs are of prompts, in the price of one uncached token. */
export interface Compared {
  /** What the provider asks for the run without the gateway. */
  readonly direct: number;
  /** What it asks for the one through the gateway. */
  readonly through: number;
  /** What it would ask at least: for each conversation's first prompt, carried, and for all that is new, once. */
  readonly least: number;
  /** What the ledger says it asked. */
  readonly booked: number;
  /** What the ledger says was saved. */
  readonly claimed: number;
  /** Whether the agent itself lets the cache serve its conversation: it marks it, and breaks it only by a summary. */
  readonly caches: boolean;
  /** The most by which the share of a prompt that was expected of the cache missed what it served, but for a block. */
  readonly missed: number;
}

/**
 * Plays a scenario with an agent directly and through the gateway. Both must come to the same files; through the gateway
 * nothing may break, vanish or be told otherwise.
 */
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
  const shown = Math.min(...working(direct.calls).map(images));
  assertEquals(shown > 0, scenario.needs === "images");
  assertEquals(Math.min(...working(through.calls).map(images)), shown);
  for (const { asked } of working(through.calls)) {
    assert(
      asked.said.some((item) => item.type === "text" && item.text.includes(RULES.trim())),
      "the rules are gone",
    );
  }
  const compacts = agent.countsItself && scenario.compacts ? "always" : scenario.compacts;
  assertEquals(summaries(through).length > 0, compacts === "always");
  assertLessOrEqual(summaries(through).length, summaries(direct).length);
  for (const { pieces } of summaries(through)) {
    assert(
      !/\[elided: \d+ messages/.test(pieces.map(({ key }) => key).join("\n")),
      "a summary of what isn't there was asked for",
    );
  }
  const served = through.calls.filter(({ status }) => status === 200);
  const [own, rewrites] = [breaks(answered(through)), epochs(through)];
  // A rewrite may come where the agent breaks its prompt itself. A request for a summary shows what had left again, and what
  // its agent asks while that is made does not.
  assertLessOrEqual(breaks(served), own + rewrites + 2 * summaries(through).length);
  assertLessOrEqual(own === 0 ? rewrites : 0, breaks(served));
  assertLessOrEqual(told(through), Math.max(...through.calls.map(({ usage }) => usage.prompt)));
  assertEquals(sessions(through).size, new Set(working(direct.calls).map(conversationOf)).size);
  const { tokenUnits: booked = NaN, withoutTokenUnits: without = NaN } = through.ledger?.planned ?? {};
  return {
    direct: costOf(direct),
    through: costOf(through),
    least: leastOf(direct),
    booked,
    claimed: without - booked,
    caches: own <= summaries(through).length && marked(direct) > direct.calls.length / 2,
    missed: missed(through),
  };
}

/** A report without the rule or a fact would be the same on both sides, and show nothing. */
function assertComplete({ files, ended }: Played, report: string): void {
  const text = files[report];
  assert(
    text !== undefined,
    `${report} is missing: ${ended.map(({ output }) => output.slice(-2000)).join("\n")}`,
  );
  assert(!/lost/.test(text), text);
}

/**
 * The requests for other things than a reply. What asks for a websocket ends at the gateway. Which models there are the
 * server itself asks now and then: by that it knows whether the provider is one of this machine.
 */
function passedOn({ others }: Played): readonly string[] {
  return others.filter((asked) => !["GET /v1/responses", "GET /v1/models"].includes(asked)).sort();
}

/** How many calls are cached up to their ends: by themselves, or by a mark. */
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
 * What no rewrite can save: the tools, instructions and question that each prompt holds, and the first reading of what
 * is new in it. Nothing older is carried, and nothing that was read once is read again.
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

/** The requests of agents that work, not those for titles and summaries. */
function working<T extends ReadRequest>(requests: readonly T[]): readonly T[] {
  return requests.filter(({ asked }) => asked.tools.length > 0);
}

/**
 * Which conversation a request is of: the main agent and sub-agents have other tools, and each began with a plan. Of one
 * that was compacted a summary says with which, in whosever name the agent puts it.
 */
function conversationOf({ asked: { said, tools } }: ReadRequest): string {
  const told = said.map((item) => item.type === "text" && item.role !== "system" ? item.text : "").join("\n");
  return [/\bplan:([A-Z]+)/.exec(told)?.[1], ...tools.filter((name) => name !== "recall")].join();
}

/** How many pictures a request shows. */
function images({ body }: ProviderCall): number {
  return [...JSON.stringify(body).matchAll(/"type":"(?:image|image_url|input_image)"/g)].length;
}

/** What an agent was told, or told its user, that only the gateway can have said. */
function alien({ ended, exchanges }: Played): readonly string[] {
  const seen = [...ended.map(({ output }) => output), ...exchanges.map(({ answer }) => answer)].join("\n");
  return [...new Set(seen.match(/\[elided\b|"name": ?"recall"|\btare\b/gi))];
}

/** What the agent asked and was answered. */
function answered({ exchanges }: Played): readonly ReadRequest[] {
  return exchanges.flatMap(({ path, body, status }) => {
    const protocol = PROTOCOLS.find((protocol) => protocol.path === path);
    return protocol && status === 200 && body !== "" ? [protocol.read(JSON.parse(body))] : [];
  });
}

/**
 * How often a prompt isn't what the same agent sent before, with more behind; what only goes back to where it was breaks
 * nothing.
 */
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

/** The sessions that the gateway told agents at work, and how often it rewrote the prompt of each. */
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

/** The most tokens of a prompt that the agent was told. */
function told({ exchanges }: Played): number {
  return Math.max(0, ...exchanges.flatMap(({ answer }) => usages(answer)).map(promptTokens));
}

/** Tokens that some providers cache together, and how many they cache at least. */
const BLOCK = 128;
const MIN_TOKENS = 1024;

/** By how much what was expected of the cache missed what it did, but for one block, in the share of the prompt. */
function missed({ calls, exchanges }: Played): number {
  // Behind a recall the answer tells of another prompt than its headers, which are written before.
  const recalling = new Set(
    calls.flatMap(({ usage }, at) =>
      calls[at - 1]?.reply?.calls.some(({ name }) => name === "recall") ? [usage.prompt] : []
    ),
  );
  return Math.max(
    0,
    ...exchanges.flatMap((exchange) => {
      const { headers, answer, came, ended } = exchange;
      // Of two at the same time nobody knows what one serves the other.
      const isBeside = exchanges.some((other) =>
        other !== exchange && other.body !== "" && other.came < ended && came < other.ended
      );
      if (isBeside) return [];
      const predicted = Number(headers.get("x-tare-cached-predicted"));
      const sent = Number(headers.get("x-tare-tokens-sent"));
      const usage = usages(answer).findLast((usage) => promptTokens(usage) > 0);
      if (!sent || !usage || recalling.has(promptTokens(usage))) return [];
      const prompt = promptTokens(usage);
      // The headers count as Tare does, the usage as the provider; a block ends where counting says.
      const expected = predicted * prompt / sent;
      const smallest = Math.min(expected, cachedOf(usage)) < MIN_TOKENS ? MIN_TOKENS : 0;
      const missed = Math.abs(expected - cachedOf(usage)) - BLOCK - smallest;
      return [Math.max(0, missed) / prompt];
    }),
  );
}

function usages(answer: string): readonly Told[] {
  return [...answer.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => {
    const event = JSON.parse(data);
    return event.usage ?? event.message?.usage ?? event.response?.usage ?? {};
  });
}

function promptTokens(usage: Told): number {
  return (usage.prompt_tokens ?? 0) + (usage.input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) +
    (usage.cache_read_input_tokens ?? 0);
}

function cachedOf(usage: Told): number {
  return usage.cache_read_input_tokens ??
    (usage.prompt_tokens_details ?? usage.input_tokens_details)?.cached_tokens ?? 0;
}

/** Tokens of a prompt, as the protocols tell them. */
type Told =
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
