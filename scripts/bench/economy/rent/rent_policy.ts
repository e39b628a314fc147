import { groupTurns } from "@tare/context";
import { countMessageTokens, countToolTokens, type Message, type ToolDefinition } from "@tare/messages";
import { promptCost } from "@tare/planner";
import { servedTokens } from "../../../../packages/planner/cache/prefix_cache.ts";
import { estimateWarmth, NO_WARMTH, observeWarmth } from "../../../../packages/planner/cache/warmth.ts";
import { WINDOW_SHARE } from "@tare/planner";
import { archiveRef, formatPlaceholder } from "@tare/prune";
import { compactTool } from "@tare/schemas";
import type { MakePolicy, Policy, PolicyCall, PolicyOptions } from "../policy.ts";
import { Bearers } from "./bearers.ts";
import { FactFinder } from "./facts.ts";
import { cheapestRoom, type Item } from "./cheapest_room.ts";
import type { Hazard } from "./hazards.ts";

/** How a rule is carried out. */
export interface RentOptions {
  /** Calls for which what stays behind a cut must earn its being written again; 0: it needn't. Default 5. */
  readonly horizonCalls?: number;
  /** Tokens at the end in which no step leaves whole. Default 8,000. */
  readonly tailTokens?: number;
  /** Whether the last complete turn's steps stay, so that only its results leave. Default false. */
  readonly keepLastTurn?: boolean;
}

/** Results with fewer tokens stay. */
const MIN_TOKENS = 60;
const PLACEHOLDER_TOKENS = 32;
const LINE_TOKENS = 28;
const LOSS_LIMIT = 0.05;
/** A full window is emptied at least down to this share, so that it isn't full again at once. */
const ROOMY_SHARE = 0.6;
const WORTHWHILE_SHARE = 0.25;
/** Calls until the window is full again, about. */
const FORCED_HORIZON = 20;
const SURELY_COLD = 0.1;

/**
 * Rent or buy, result by result and step by step: what is worth less than it costs to carry runs up rent, and when the
 * rent of all that a cut would take equals the cut's price, it is made.
 */
export function rentPolicy(hazard: Hazard, options: RentOptions = {}): MakePolicy {
  return (session) => new RentPolicy(hazard, options, session);
}

class RentPolicy implements Policy {
  readonly #hazard: Hazard;
  readonly #rule: Required<RentOptions>;
  readonly #options: PolicyOptions;
  readonly #finder: FactFinder;
  readonly #bearers = new Bearers();
  /** What stands for each message: itself, its placeholder, or nothing. */
  #shown: (Message | undefined)[] = [];
  #lines = new Map<number, Message>();
  #rent: number[] = [];
  #call = 0;
  #compact = new Set<string>();
  #toolRent = 0;
  #warmth = NO_WARMTH;
  #paid = 0;
  #resend = 0;
  #lastFull = 0;
  #lastPrompt = 0;
  #lastMs = -Infinity;
  /** Tokens that the provider counts and that aren't to be seen here. */
  #unseen = 0;
  #idle: readonly Item[] = [];
  #seenPrompt = 0;
  #rewritten = false;
  #nowMs = 0;
  #history: readonly Message[] = [];
  #tools: readonly ToolDefinition[] = [];

  constructor(hazard: Hazard, options: RentOptions, session: PolicyOptions) {
    this.#hazard = hazard;
    this.#rule = { horizonCalls: 5, tailTokens: 8_000, keepLastTurn: false, ...options };
    this.#options = session;
    this.#finder = new FactFinder(session);
  }

  async view({ messages, tools, nowMs }: PolicyCall) {
    this.#call++;
    this.#nowMs = nowMs;
    this.#history = messages;
    this.#tools = tools;
    for (const message of messages.slice(this.#shown.length)) {
      this.#bearers.add(this.#finder.find(message), this.#call);
      this.#shown.push(message);
      this.#rent.push(0);
    }
    const items = this.#items();
    this.#rewritten = await this.#cut(items);
    this.#rewritten = await this.#fit(items) || this.#rewritten;
    this.#idle = items.filter(({ idle, from }) => idle && this.#shown[from] === messages[from]);
    const idle = new Set(this.#idle.flatMap(({ from, to }) => range(from, to)));
    this.#rent = this.#rent.map((rent, at) => idle.has(at) ? rent : 0);
    this.#seenPrompt = this.#starts().at(-1)! - this.#unseen;
    return { messages: this.#view(), tools: this.#shownTools() };
  }

  sent(
    { promptTokens, cachedTokens }: { readonly promptTokens: number; readonly cachedTokens: number },
  ): void {
    const { profile } = this.#options;
    this.#unseen = Math.max(0, promptTokens - this.#seenPrompt);
    const starts = this.#starts();
    for (const { from, to, step } of this.#idle) {
      for (const at of range(from, to)) {
        const tokens = this.#tokens(at) - (step ? 0 : PLACEHOLDER_TOKENS);
        this.#rent[at]! += tokens * (starts[at]! < cachedTokens ? profile.read : profile.write);
      }
    }
    this.#toolRent += this.#compactable() * (cachedTokens > 0 ? profile.read : profile.write);
    const expected = Math.min(this.#lastPrompt, promptTokens - 1);
    const warm = this.#rewritten
      ? (cachedTokens > 0 ? 1 : 0)
      : expected > 0
      ? Math.min(1, cachedTokens / expected)
      : 0;
    if (expected > 0 && !this.#rewritten) {
      const idleMs = this.#nowMs - this.#lastMs;
      this.#warmth = observeWarmth(profile, { idleMs, warm: warm >= 0.8 }, this.#warmth);
    }
    this.#paid += promptCost(profile, { promptTokens, cachedTokens });
    this.#resend += this.#resendCost(warm);
    this.#lastFull = this.#fullTokens();
    this.#lastPrompt = promptTokens;
    this.#lastMs = this.#nowMs;
  }

  #alive(): number {
    if (this.#lastMs === -Infinity) return 0;
    return estimateWarmth(this.#options.profile, this.#nowMs - this.#lastMs, this.#warmth);
  }

  /** What could leave, in the order of the prompt. */
  #items(): Item[] {
    const messages = this.#history;
    const turns = groupTurns(messages);
    const active = turns.at(-1)?.start ?? 0;
    const completeUpTo = this.#completeUpTo(turns);
    const users = messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content))
      .join("\n");
    let tail = messages.length;
    for (let left = this.#rule.tailTokens; tail > 0; tail--) if ((left -= this.#tokens(tail - 1)) < 0) break;
    const newest = messages.findLastIndex(({ role }) => role === "assistant");
    const items: Item[] = [];
    for (let at = 0; at < messages.length; at++) {
      const message = messages[at]!;
      const calls = message.role === "assistant" && (message.tool_calls?.length ?? 0) > 0;
      if (calls && this.#shown[at] && at < Math.min(completeUpTo, tail)) {
        let to = at + 1;
        while (messages[to]?.role === "tool") to++;
        const step = this.#item(at, to, true);
        if (step.idle || step.goes) {
          items.push(step);
          at = to - 1;
        }
        continue;
      }
      if (message.role !== "tool" || this.#shown[at] !== message || at > newest) continue;
      const { facts } = this.#bearers.all[at]!;
      if (facts.error || facts.tokens < MIN_TOKENS) continue;
      if (at >= active && facts.fileText && this.#isPinned(at, users)) continue;
      items.push(this.#item(at, at + 1, false));
    }
    return items;
  }

  /**
   * The end of what is complete: the last turn that a text answer ended, the active one excepted. An interrupted turn
   * is one with those behind it up to the next text answer.
   */
  #completeUpTo(turns: readonly { readonly start: number; readonly end: number }[]): number {
    const ends = turns.slice(0, -1).filter(({ start, end }) => {
      const last = this.#history.slice(start, end).findLast(({ role }) =>
        role !== "system" && role !== "developer"
      );
      return last?.role === "assistant" && (last.tool_calls?.length ?? 0) === 0;
    });
    return (this.#rule.keepLastTurn ? ends.at(-1)?.start : ends.at(-1)?.end) ?? 0;
  }

  /** A read of the active turn whose file the user named and nobody has edited since. */
  #isPinned(at: number, users: string): boolean {
    const standing = this.#bearers.all[at]!;
    return !this.#bearers.isStale(standing) &&
      standing.facts.files.some((file) => file.length >= 5 && users.includes(file));
  }

  #item(from: number, to: number, step: boolean): Item {
    const { profile } = this.#options;
    const { horizonCalls } = this.#rule;
    let tokens = step ? 0 : -PLACEHOLDER_TOKENS;
    let loss = 0;
    let lossAhead = 0;
    let lossInRoom = 0;
    let rent = 0;
    for (const at of range(from, to)) {
      tokens += this.#tokens(at);
      rent += this.#rent[at]!;
      if (this.#shown[at] !== this.#history[at]) continue;
      const standing = this.#bearers.all[at]!;
      const fileAge = this.#bearers.fileAge(standing, this.#call);
      const expected = this.#hazard(standing, { call: this.#call, fileAge, profile });
      loss += expected.loss;
      lossAhead += lossWithin(horizonCalls, expected);
      lossInRoom += lossWithin(FORCED_HORIZON, expected);
    }
    const idle = loss <= tokens * profile.read;
    const goes = horizonCalls > 0
      ? lossAhead <= tokens * (profile.write + horizonCalls * profile.read)
      : idle;
    return { from, to, step, tokens, rent, lossInRoom, idle, goes };
  }

  /** Makes the largest cut whose rent is paid and that the loss limit allows. */
  async #cut(items: readonly Item[]): Promise<boolean> {
    const { profile } = this.#options;
    const { read, write } = profile;
    const alive = this.#alive();
    const sure = alive < SURELY_COLD ? alive : 1;
    const starts = this.#starts();
    const promptTokens = starts.at(-1)!;
    const cached = servedTokens(profile, { promptTokens, sharedTokens: this.#lastPrompt });
    const now = promptCost(profile, { promptTokens, cachedTokens: sure * cached });
    const allowed = Math.max(
      0,
      (1 + LOSS_LIMIT) * (this.#resend + this.#resendCost(sure)) - this.#paid - now,
    );
    const pays = (broken: number, tokens: number, rent: number): boolean => {
      const price = (chance: number) => chance * (write - read) * Math.max(0, broken) - write * tokens;
      // Where carrying is free nothing is bought on the chance alone that the cache is cold.
      return tokens > 0 && rent >= price(alive) && price(sure) <= allowed && (rent > 0 || price(1) <= 0);
    };
    const leaving = items.filter(({ goes }) => goes);
    let tokens = 0;
    let rent = 0;
    let first = -1;
    for (let at = leaving.length - 1; at >= 0; at--) {
      const item = leaving[at]!;
      tokens += item.tokens;
      rent += item.rent;
      if (item.idle && pays(cached - starts[item.from]!, tokens - LINE_TOKENS, rent)) first = at;
    }
    const tools = this.#compactable();
    if (tools > 0 && pays(cached, tokens + tools, rent + this.#toolRent)) {
      this.#compact = this.#called();
      this.#toolRent = 0;
      first = 0;
      if (leaving.length === 0) return true;
    }
    if (first < 0) return false;
    await this.#leave(leaving.slice(first));
    return leaving.length > 0;
  }

  /**
   * Makes room in a full window, as cheaply for each token of room as can be: a cut here and there is compared, with
   * more and less of what stands behind it. Only if that isn't enough the oldest steps of the active turn go too.
   */
  async #fit(items: readonly Item[]): Promise<boolean> {
    const { windowTokens } = this.#options;
    const promptTokens = this.#starts().at(-1)!;
    if (promptTokens <= WINDOW_SHARE * windowTokens) return false;
    const most = ROOMY_SHARE * windowTokens;
    const here = items.filter(({ from }) => this.#shown[from] === this.#history[from]);
    const { profile: { read, write } } = this.#options;
    const room = cheapestRoom(here, {
      starts: this.#starts(),
      cachedTokens: Math.min(this.#lastPrompt, promptTokens),
      brokenPrice: this.#alive() * (write - read),
      neededTokens: promptTokens - most,
    });
    if (room) {
      await this.#leave(room);
      return true;
    }
    const freed = here.reduce((sum, { tokens }) => sum + tokens, 0);
    const all = [...here, ...this.#oldestSteps(promptTokens - freed - most)];
    // What can't leave fills the window: a rewrite for little would come again at the next call.
    if (all.reduce((sum, { tokens }) => sum + tokens, 0) < WORTHWHILE_SHARE * promptTokens) return false;
    await this.#leave(all.toSorted((a, b) => a.from - b.from));
    return true;
  }

  /** The oldest steps that are still shown, whatever turn they are of, but for the last two. */
  #oldestSteps(neededTokens: number): Item[] {
    const starts = this.#history.flatMap(({ role }, at) => role === "assistant" ? [at] : []).slice(0, -2);
    const steps: Item[] = [];
    let left = neededTokens;
    for (const from of starts) {
      if (left <= 0) break;
      let to = from + 1;
      while (this.#history[to]?.role === "tool") to++;
      if (to === from + 1 || !this.#shown[from]) continue;
      const step = this.#item(from, to, true);
      left -= step.tokens;
      steps.push(step);
    }
    return steps;
  }

  /** Lets items go. One line stands for all steps that have left from the first of them on. */
  async #leave(items: readonly Item[]): Promise<void> {
    for (const { from, to, step } of items) {
      for (const at of range(from, to)) {
        this.#shown[at] = step ? undefined : await placeholder(this.#history[at]!);
      }
    }
    const first = items[0]?.from ?? 0;
    for (const at of this.#lines.keys()) if (at >= first) this.#lines.delete(at);
    const gone = range(first, this.#history.length).filter((at) => !this.#shown[at]);
    if (gone.length === 0) return;
    const ref = await archiveRef(gone.map((at) => JSON.stringify(this.#history[at])).join("\n"));
    const content = `[elided: ${gone.length} messages; recall with ref ${ref}]`;
    this.#lines.set(gone[0]!, { role: "user", content });
  }

  #view(): Message[] {
    return this.#shown.flatMap((message, at) => {
      const line = this.#lines.get(at);
      return [...(line ? [line] : []), ...(message ? [message] : [])];
    });
  }

  #tokens(at: number): number {
    const message = this.#shown[at];
    return message ? countMessageTokens(message, this.#options.countTokens) : 0;
  }

  /** Where each message starts in the prompt, in tokens; and the prompt's end. */
  #starts(): number[] {
    let start = this.#unseen + this.#toolTokens(this.#shownTools());
    const starts: number[] = [];
    for (const at of this.#shown.keys()) {
      if (this.#lines.has(at)) start += LINE_TOKENS;
      starts.push(start);
      start += this.#tokens(at);
    }
    return [...starts, start];
  }

  #fullTokens(): number {
    let tokens = this.#unseen + this.#toolTokens(this.#tools);
    for (const { facts } of this.#bearers.all) tokens += facts.tokens;
    return tokens;
  }

  #resendCost(alive: number): number {
    const { profile } = this.#options;
    const promptTokens = this.#fullTokens();
    const cachedTokens = alive * servedTokens(profile, { promptTokens, sharedTokens: this.#lastFull });
    return promptCost(profile, { promptTokens, cachedTokens });
  }

  #shownTools(): readonly ToolDefinition[] {
    return this.#tools.map((tool) => this.#compact.has(tool.function.name) ? compactTool(tool) : tool);
  }

  #toolTokens(tools: readonly ToolDefinition[]): number {
    return tools.reduce((sum, tool) => sum + countToolTokens(tool, this.#options.countTokens), 0);
  }

  /** Names of the tools that have been called. */
  #called(): Set<string> {
    return new Set(this.#bearers.all.flatMap(({ facts }) => facts.calls));
  }

  /** Tokens that the definitions of tools which have been called would save. */
  #compactable(): number {
    const called = this.#called();
    const tools = this.#tools.filter(({ function: { name } }) =>
      called.has(name) && !this.#compact.has(name)
    );
    return this.#toolTokens(tools) - this.#toolTokens(tools.map(compactTool));
  }
}

/** What a loss that falls with age comes to within so many calls. */
function lossWithin(calls: number, { loss, age }: ReturnType<Hazard>): number {
  return loss * age * Math.log(1 + calls / age);
}

async function placeholder(message: Message): Promise<Message> {
  if (message.role !== "tool") return message;
  const text = typeof message.content === "string" ? message.content : JSON.stringify(message.content);
  const ref = await archiveRef(text);
  return {
    ...message,
    content: formatPlaceholder({ of: "result", tool: "tool", bytes: text.length, ref }, { recall: true }),
  };
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, at) => from + at);
}
