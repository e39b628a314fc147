import type { CountTokens, Message, Usage } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import type { Profile } from "@tare/planner";
import { PrefixCache, promptCost, type PromptUnit } from "@tare/planner/internal/parts";
import { RECALL_TOOL } from "@tare/prune";
import { HourCache } from "../keep_alive/hour_cache.ts";
import { playPause } from "../keep_alive/play_pause.ts";
import type { WarmOptions } from "../keep_alive/play_session.ts";
import { awaitedAfter } from "../keep_alive/timed_session.ts";
import { outputPrice } from "./assumptions.ts";
import { isRefused } from "./is_refused.ts";
import { wantedBy } from "./needs.ts";
import type { CallPolicy, MakePolicy, PolicyView } from "./policy.ts";
import type { Recording } from "./recording.ts";
import { repair } from "./repair.ts";
import { Sight, type VisibleNames } from "./sight.ts";

export interface PlayOptions {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  readonly recall: boolean;
  /** Whether a refetch precedes a call that needs evicted content. If false, losses are only counted. */
  readonly refetches: boolean;
  /** Whether only prompt tokens count: no fixed prefix, recall tool or output. Default: false. */
  readonly bare?: boolean;
  /** Default: `parts`. */
  readonly namesVisible?: VisibleNames;
  /**
   * Most tokens that a recorded call read from the cache, the fixed prefix included. With it no entry expires
   * by time. Default: entries expire after the profile's time to live.
   */
  readonly cachedAtMost?: (call: number) => number;
  /** Whether the provider extends a prefix to an hour, and whether the policy knows a session's end. Default: yes; no. */
  readonly keepAlive?: Pick<WarmOptions, "grants" | "reportsEnd">;
}

/** Costs are in cost units. */
export interface Played {
  readonly calls: number;
  /** Cost of the recorded calls and of the policy's own requests. */
  readonly cost: number;
  readonly refetchCost: number;
  readonly refetches: number;
  readonly edits: number;
  /** Calls that replace a text with a line that occurred earlier and isn't visible. */
  readonly editsWithLostText: number;
  /** Sum over the calls of the share of user tokens that the prompt lacks. */
  readonly userShareGone: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly maxPromptTokens: number;
  /** Keep-alive requests; `cost` includes them. */
  readonly keepAliveRequests: number;
  /** Number of maximal sequences of calls whose prompts extend each other. */
  readonly epochs: number;
  /** Calls with a prompt that every provider rejects. Their cost is included. */
  readonly refused: number;
}

const REFETCH_MS = 4_000;

export async function play(recording: Recording, make: MakePolicy, options: PlayOptions): Promise<Played> {
  const { cachedAtMost, countTokens, refetches, namesVisible = "parts" } = options;
  const history: Message[] = [];
  const sight = new Sight(namesVisible);
  const desk = new Desk(recording, options);
  const policy = await make({ ...options, recording });
  const totals = {
    refetchCost: 0,
    refetches: 0,
    edits: 0,
    editsWithLostText: 0,
    userShareGone: 0,
    refused: 0,
  };
  let cost = 0;
  const addMessages = (messages: readonly Message[]): void => {
    for (const message of messages) {
      history.push(message);
      sight.add(message, (user) => countMessageTokens(user, countTokens));
    }
  };
  const send = async (
    nowMs: number,
    { answer, mostCached }: {
      readonly answer: Message | undefined;
      readonly mostCached?: number | undefined;
    },
  ): Promise<number> => {
    const view = await policy.view({ messages: [...history], tools: desk.tools, nowMs });
    const aside = view.aside ? desk.ask(view.aside, { nowMs, outputTokens: view.aside.outputTokens }) : 0;
    const paid = desk.send(view, { nowMs, outputTokens: desk.outputTokens(answer), mostCached });
    policy.sent?.(desk.usage);
    sight.show(view.messages, desk.units.slice(desk.units.length - view.messages.length));
    return aside + paid;
  };
  let taken = 0;
  for (const [at, call] of recording.calls.entries()) {
    if (at > 0) cost += desk.pause(policy, { at: at - 1, nextMs: call.timeMs });
    addMessages(recording.messages.slice(taken, call.messages));
    taken = call.messages;
    const answer = recording.messages[call.messages];
    cost += await send(call.timeMs, { answer, mostCached: cachedAtMost?.(at) });
    if (isRefused(sight.view)) totals.refused++;
    totals.userShareGone += sight.userShareGone();
    const wanted = wantedBy(answer);
    const lost = sight.lost(wanted);
    totals.edits += wanted.edits.length;
    totals.editsWithLostText += wanted.edits.filter((lines) => !lines.isDisjointFrom(lost.lines)).length;
    if (lost.lines.size === 0 && lost.names.size === 0) continue;
    totals.refetches++;
    if (!refetches) continue;
    const bearers = sight.bearers(lost).flatMap((place) => history[place] ?? []);
    const trip = await repair(bearers, { lost, number: totals.refetches, countTokens });
    addMessages(trip);
    totals.refetchCost += await send(call.timeMs + REFETCH_MS, { answer: trip[0] });
  }
  cost += desk.pause(policy, { at: recording.calls.length - 1, nextMs: Infinity });
  return { calls: recording.calls.length, cost, ...totals, ...desk.totals };
}

interface SentRequest {
  readonly nowMs: number;
  readonly outputTokens: number;
  readonly mostCached?: number | undefined;
}

class Desk {
  readonly #options: PlayOptions;
  readonly #recording: Recording;
  readonly #cache: HourCache;
  readonly #prefix: readonly PromptUnit[];
  readonly totals = { promptTokens: 0, cachedTokens: 0, maxPromptTokens: 0, keepAliveRequests: 0, epochs: 0 };
  units: readonly PromptUnit[] = [];
  #requestedAtMs = 0;
  usage: Usage = { promptTokens: 0, cachedTokens: 0, outputTokens: 0 };
  /** Tools of the policy; the recorded tools are omitted if the recorded fixed prefix includes them. */
  readonly tools: Recording["tools"];

  constructor(recording: Recording, options: PlayOptions) {
    const { bare = false, recall, profile } = options;
    this.#options = options;
    this.#recording = recording;
    const ttlMs = options.cachedAtMost ? Infinity : profile.ttlMs;
    this.#cache = new HourCache({ ...profile, ttlMs }, options.keepAlive);
    const tokens = bare ? undefined : recording.fixedPrefixTokens;
    this.#prefix = tokens === undefined ? [] : [{ hash: "fixed prefix", tokens }];
    this.tools = [
      ...(tokens === undefined ? recording.tools : []),
      ...(recall && !bare ? [RECALL_TOOL] : []),
    ];
  }

  /** Returns the tokens of a reply: as reported, reasoning included, or as counted in the recording if that is more. */
  outputTokens(answer: Message | undefined): number {
    if (!answer) return 0;
    const reported = this.#recording.usage.get(this.#recording.messages.indexOf(answer))?.output ?? 0;
    return Math.max(reported, countMessageTokens(answer, this.#options.countTokens));
  }

  send(view: PolicyView, request: SentRequest): number {
    const before = this.units;
    const cost = this.ask(view, request);
    const { promptTokens, cachedTokens } = this.usage;
    this.totals.promptTokens += promptTokens;
    this.totals.cachedTokens += cachedTokens;
    this.totals.maxPromptTokens = Math.max(this.totals.maxPromptTokens, promptTokens);
    const grown = before.length > 0 && before.every(({ hash }, at) => this.units[at]?.hash === hash);
    if (!grown) this.totals.epochs++;
    return cost;
  }

  pause({ warmer }: CallPolicy, { at, nextMs }: { readonly at: number; readonly nextMs: number }): number {
    const { profile, countTokens, keepAlive = { reportsEnd: false } } = this.#options;
    const { messages = 0 } = this.#recording.calls[at] ?? {};
    const answer = this.#recording.messages[messages];
    if (!warmer || !answer) return 0;
    const [unit] = PrefixCache.unitsOf({ messages: [answer], tools: [] }, countTokens);
    const { keepAliveRequests, cost } = playPause(warmer, {
      ...awaitedAfter(this.#recording, messages),
      atMs: this.#requestedAtMs,
      units: this.units,
      promptTokens: this.usage.promptTokens,
      answer: unit!,
      isFirst: at === 0,
      nextMs,
    }, { cache: this.#cache, profile, reportsEnd: keepAlive.reportsEnd });
    this.totals.keepAliveRequests += keepAliveRequests;
    return cost;
  }

  ask(
    { messages, tools }: PolicyView,
    { nowMs, outputTokens, mostCached = Infinity }: SentRequest,
  ): number {
    const { profile, countTokens, bare } = this.#options;
    this.units = [...this.#prefix, ...PrefixCache.unitsOf({ messages, tools }, countTokens)];
    this.#requestedAtMs = nowMs;
    const { promptTokens, cachedTokens: servedTokens } = this.#cache.serve(this.units, nowMs);
    const [prefix] = this.#prefix;
    // Other sessions may have cached the fixed prefix.
    const cachedTokens = mostCached === Infinity
      ? servedTokens
      : Math.min(mostCached, Math.max(servedTokens, prefix?.tokens ?? 0));
    this.usage = { promptTokens, cachedTokens, outputTokens };
    return promptCost(profile, this.usage) + (bare ? 0 : outputPrice(profile) * outputTokens);
  }
}

/** A session under a policy: `open` without refetches, `closed` with them. */
export interface PlayedPair {
  readonly open: Played;
  readonly closed: Played;
}

export async function playPair(
  recording: Recording,
  make: MakePolicy,
  options: Omit<PlayOptions, "refetches">,
): Promise<PlayedPair> {
  const open = await play(recording, make, { ...options, refetches: false });
  const closed = open.refetches === 0 ? open : await play(recording, make, { ...options, refetches: true });
  return { open, closed };
}

/** Returns a session's cost in cost units, with refetches weighted by `times`. */
export function pairCost({ closed }: PlayedPair, times: number): number {
  return closed.cost + times * closed.refetchCost;
}
