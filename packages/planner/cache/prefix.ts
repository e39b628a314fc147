import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens, hashBytes, hashPiece, hashText } from "@tare/messages/internal";
import { type Profile, profileForTtl } from "../providers.ts";
import { scaled, type TokenScale } from "./prompt_size.ts";

/**
 * How much of a prompt a warm cache serves if the prompt shares so many tokens with one that it holds: whole blocks
 * of at least the smallest size, and never the last token.
 */
export function servedTokens(
  profile: Pick<Profile, "minTokens" | "blockTokens">,
  prompt: { readonly promptTokens: number; readonly sharedTokens: number },
): number {
  const { minTokens, blockTokens } = profile;
  const { promptTokens, sharedTokens } = prompt;
  const tokens = Math.floor(Math.min(sharedTokens, promptTokens - 1) / blockTokens) * blockTokens;
  return tokens >= minTokens ? tokens : 0;
}

/**
 * One piece of a prompt as the provider's cache sees it: a tool definition, a message, or a run of token ids.
 * Pieces with the same hash must be the same piece.
 */
export interface PromptUnit {
  /** Tells the piece from every other. */
  readonly hash: string | number;
  readonly tokens: number;
}

type CacheRules = Pick<Profile, "minTokens" | "blockTokens" | "ttlMs">;

interface Node {
  readonly children: Map<string | number, Node>;
  usedMs: number;
  /** Whether a prompt is held up to its end. */
  isEnd: boolean;
}

/** Prefix ends that a cache remembers unless told otherwise: some hundred long sessions. */
const DEFAULT_MAX_UNITS = 1_000_000;

/** Options of {@linkcode PrefixCache}. */
export interface PrefixCacheOptions {
  /** Units that are remembered at most. Default: one million. */
  readonly maxUnits?: number;
}

/** A request, as {@linkcode PrefixCache.unitsOf} reads it. */
export interface UnitsRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

/**
 * A provider's prefix cache as a pure model: it holds every prefix that was sent to it, not only the last,
 * honours the profile's smallest size, blocks and time to live, and forgets what was used longest ago when it is
 * full. Units stand in the provider's order: tools, system, messages.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { PrefixCache } from "@tare/planner/internal/parts";
 *
 * const cache = new PrefixCache(profileNamed("anthropic-5m"));
 * const prompt = [{ hash: "system", tokens: 2000 }, { hash: "hello", tokens: 10 }];
 * cache.store(prompt, 0);
 * assertEquals(cache.lookup([...prompt, { hash: "again", tokens: 10 }], 60_000), 2010);
 * assertEquals(cache.lookup(prompt, 60_000), 2009); // the last token is always processed
 * assertEquals(cache.lookup(prompt, 301_000), 0);
 * ```
 */
export class PrefixCache {
  readonly #profile: CacheRules;
  readonly #maxUnits: number;
  readonly #root: Node = { children: new Map(), usedMs: -Infinity, isEnd: false };
  #units = 0;

  /** An empty cache. */
  constructor(profile: CacheRules, options: PrefixCacheOptions = {}) {
    this.#profile = profile;
    this.#maxUnits = options.maxUnits ?? DEFAULT_MAX_UNITS;
  }

  /**
   * A request as its provider's cache sees it: one unit for each tool, then one for each message. What is known of
   * an object is remembered, so that a growing conversation costs only what is new.
   */
  static unitsOf({ messages, tools }: UnitsRequest, countTokens: CountTokens): PromptUnit[] {
    return [
      ...tools.map((tool) => ({ hash: hashBytes(tool), tokens: countToolTokens(tool, countTokens) })),
      ...messages.map((message) => ({
        hash: hashBytes(message),
        tokens: countMessageTokens(message, countTokens),
      })),
    ];
  }

  /** Returns the tokens of this prompt that are cached now, up to the `ends`, in units. Default: up to each unit. */
  lookup(units: readonly PromptUnit[], nowMs: number, ends?: readonly number[]): number {
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    return servedTokens(this.#profile, { promptTokens, sharedTokens: this.held(units, nowMs, ends) });
  }

  /** Tokens with which this prompt starts like those that are cached now, however few a provider would serve. */
  held(units: readonly PromptUnit[], nowMs: number, ends: readonly number[] = [units.length]): number {
    const { ttlMs } = this.#profile;
    let node = this.#root;
    let [heldTokens, endTokens] = [0, 0];
    for (const unit of units.slice(0, Math.max(0, ...ends))) {
      const next = node.children.get(unit.hash);
      if (!next || nowMs - next.usedMs > ttlMs) break;
      node = next;
      endTokens += unit.tokens;
      if (node.isEnd) heldTokens = endTokens;
    }
    return heldTokens;
  }

  /** Stores a prompt that was processed up to these `ends`, in units, and refreshes what it used. Default: up to each unit. */
  store(units: readonly PromptUnit[], nowMs: number, ends?: readonly number[]): void {
    if (this.#profile.minTokens === Infinity) return;
    const held = ends && new Set(ends);
    let node = this.#root;
    for (const [at, unit] of units.slice(0, Math.max(0, ...ends ?? [units.length])).entries()) {
      let next = node.children.get(unit.hash);
      if (!next) {
        next = { children: new Map(), usedMs: nowMs, isEnd: false };
        node.children.set(unit.hash, next);
        this.#units++;
      }
      next.usedMs = Math.max(next.usedMs, nowMs);
      next.isEnd ||= !held || held.has(at + 1);
      node = next;
    }
    if (this.#units > this.#maxUnits) this.#forget();
  }

  /** Returns up to which of a prompt's units prompts are held that it begins with. */
  endsIn(units: readonly Pick<PromptUnit, "hash">[]): readonly number[] {
    const ends: number[] = [];
    let node: Node | undefined = this.#root;
    for (const [at, { hash }] of units.entries()) {
      node = node.children.get(hash);
      if (!node) break;
      if (node.isEnd) ends.push(at + 1);
    }
    return ends;
  }

  /** Drops the older half. A unit is never used later than the one before it, so what stays hangs together. */
  #forget(): void {
    const times: number[] = [];
    visit(this.#root, (node) => times.push(node.usedMs));
    times.sort((a, b) => a - b);
    const keptFromMs = times[times.length >> 1] ?? 0;
    this.#units = 0;
    visit(this.#root, (node) => {
      for (const [hash, child] of node.children) {
        if (child.usedMs < keptFromMs) node.children.delete(hash);
        else this.#units++;
      }
    });
    if (this.#units <= this.#maxUnits) return;
    // All of one age.
    this.#root.children.clear();
    this.#units = 0;
  }
}

/** Calls `see` for each node below `root` and `root` itself, parents first, without recursion: prompts are long. */
function visit(root: Node, see: (node: Node) => void): void {
  const pending = [root];
  for (let node = pending.pop(); node; node = pending.pop()) {
    see(node);
    for (const child of node.children.values()) pending.push(child);
  }
}

/** Memory for a message or tool of a prompt that a provider holds, in bytes. */
const UNIT_BYTES = 200;

/** Characters of a piece of instructions and first words by which prompts are distinguished: about a block of a cache. */
const PIECE_CHARS = 500;

/** Longest text, in UTF-16 code units, each of whose pieces is counted. */
const COUNTED_CHARS = 2 ** 16;

/** Messages that begin later in a prompt than this, in UTF-16 code units, are not cut into pieces. */
const PIECED_CHARS = 2 ** 18;

/** Returns how many messages at the beginning of a prompt are cut into pieces. */
function piecedMessages(messages: readonly Message[]): number {
  let chars = 0;
  const end = messages.findIndex(({ content }) => {
    const isFar = chars > PIECED_CHARS;
    chars += contentText(content).length;
    return isFar;
  });
  return end < 0 ? messages.length : end;
}

/** A request of which a provider holds a prefix. */
export interface HeldPrompt {
  readonly client: string;
  readonly model: string;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  /** Behind how many messages the provider is asked to cache it; 0 is behind the tools. Absent: it caches all of it. */
  readonly ends: readonly number[] | undefined;
  readonly countTokens: CountTokens;
}

/** The prefix of a prompt that a provider holds. Plain data. */
export interface StoredPrompt {
  readonly model: string;
  /** Hashes of its units. */
  readonly units: readonly PromptUnit["hash"][];
  /** Behind how many units the provider was asked to cache it. Absent: it caches all of it. */
  readonly ends?: readonly number[];
}

/**
 * The prompts that providers hold, of all sessions: up to the cache breakpoints of requests that have some. They take at
 * most `maxBytes` bytes; the least recently used are evicted first.
 */
export class HeldPrompts {
  readonly #cache: PrefixCache;
  readonly #pieces = new WeakMap<Message, readonly PromptUnit[]>();
  /** Of prompts that are being sent. */
  readonly #units = new WeakMap<HeldPrompt, readonly PromptUnit[]>();

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    // For how long is decided by each session.
    const rules = { minTokens: 0, blockTokens: 1, ttlMs: Infinity };
    this.#cache = new PrefixCache(rules, { maxUnits: Math.ceil(maxBytes / UNIT_BYTES) });
  }

  /** Returns the tokens of the longest prefix that a provider holds, counted locally. */
  held(prompt: HeldPrompt): number {
    return this.#cache.held(this.#unitsOf(prompt), 0, endsOf(prompt));
  }

  /** Adds a prompt that a provider has read, at this time in milliseconds since the epoch. */
  read(prompt: HeldPrompt, nowMs: number): void {
    this.#cache.store(this.#unitsOf(prompt), nowMs, endsOf(prompt));
  }

  /** Returns a prompt that was read, to be stored. */
  stored(prompt: HeldPrompt): StoredPrompt {
    const units = this.#unitsOf(prompt);
    const hashes = units.slice(1).map(({ hash }) => hash);
    return { model: prompt.model, units: hashes, ...(prompt.ends && { ends: this.#cache.endsIn(units) }) };
  }

  /** Adds a client's stored prompt, which was read at this time. */
  restore(client: string, { model, units, ends }: StoredPrompt, atMs: number): void {
    const all = [`${client} ${model}`, ...units].map((hash) => ({ hash, tokens: 0 }));
    this.#cache.store(all, atMs, ends);
  }

  #unitsOf(prompt: HeldPrompt): readonly PromptUnit[] {
    const known = this.#units.get(prompt);
    if (known) return known;
    const { client, model, tools, messages, ends, countTokens } = prompt;
    const answer = messages.findIndex(({ role }) => role === "assistant");
    const opening = answer < 0 ? messages.length : answer;
    // Without breakpoints a cache shares all that two texts begin with.
    const whole = ends ? 0 : piecedMessages(messages.slice(0, opening));
    const units = [
      { hash: `${client} ${model}`, tokens: 0 },
      ...PrefixCache.unitsOf({ tools, messages: [] }, countTokens),
      ...messages.slice(0, whole).flatMap((message) => this.#piecesOf(message, countTokens)),
      ...PrefixCache.unitsOf({ tools: [], messages: messages.slice(whole) }, countTokens),
    ];
    this.#units.set(prompt, units);
    return units;
  }

  /** Returns a message as pieces of its text and the rest. */
  #piecesOf(message: Message, countTokens: CountTokens): readonly PromptUnit[] {
    const known = this.#pieces.get(message);
    if (known) return known;
    const { role, content } = message;
    const isText = typeof content === "string" || content?.every(({ type }) => type === "text");
    const text = isText ? contentText(content) : "";
    const pieces: PromptUnit[] = [];
    const all = countMessageTokens(message, countTokens);
    let left = all;
    // Of a long text each piece is taken to be as dense as the whole: counting thousands of them would block others.
    const mean = text.length > COUNTED_CHARS ? Math.floor(all * PIECE_CHARS / text.length) : undefined;
    for (let end = PIECE_CHARS; end < text.length; end += PIECE_CHARS) {
      const piece = text.slice(end - PIECE_CHARS, end);
      const tokens = Math.min(left, mean ?? countTokens(piece));
      pieces.push({ hash: hashText(`${role} ${piece}`), tokens });
      left -= tokens;
    }
    pieces.push({ hash: hashBytes(message), tokens: left });
    this.#pieces.set(message, pieces);
    return pieces;
  }
}

function endsOf({ tools, ends }: HeldPrompt): readonly number[] | undefined {
  return ends?.map((end) => 1 + tools.length + end);
}

export interface SentRequest {
  /** Tells its tools, as the model saw them, from any others: one number each. */
  readonly tools: readonly number[];
  /** Tokens of its messages with which what the model sees now still starts. */
  readonly messageTokens: number;
  /** Tokens that it had, tools included. */
  readonly promptTokens: number;
  /** Whether it was what its client would have sent without Tare. */
  readonly isWhole: boolean;
  /** Tokens that its client would have sent without Tare, had it compacted nothing. */
  readonly ownTokens: number;
  /** The same with what only Tare added, such as recalls. */
  readonly wholeTokens: number;
  /** Tells the tools that its client would have sent, in full, from any others. */
  readonly ownTools: readonly number[];
  readonly atMs: number;
  /** When what the cache holds of it was used last, if that was later: by a ping, or where it lasts an hour by a request. */
  readonly usedMs?: number;
  /** Whether a ping made that last an hour since its last use. Absent: no. */
  readonly forAnHour?: boolean;
  readonly model?: string | undefined;
}

/** What the cache is expected to do for a request. */
export interface Prediction {
  /** Tokens with which it starts like one that was sent before, counted here. */
  readonly sharedTokens: number;
  /** Probability that they are still cached. */
  readonly alive: number;
  /** Time since they were last used. */
  readonly idleMs: number;
  /** Whether they are there for an hour since, whatever the provider's usual time. Absent: no. */
  readonly forAnHour?: boolean;
}

export const HOUR_MS = 3_600_000;

/** When what the cache holds of a request was last used. */
export function lastUseMs({ atMs, usedMs = atMs }: SentRequest): number {
  return usedMs;
}

/** How long that is there for, since then. */
export function timeToLive({ forAnHour = false }: SentRequest, { ttlMs }: Pick<Profile, "ttlMs">): number {
  return forAnHour ? Math.max(ttlMs, HOUR_MS) : ttlMs;
}

/** How likely that is still there. */
export function sentWarmth(
  sent: SentRequest,
  { profile, warmth, nowMs }: {
    readonly profile: Profile;
    readonly warmth: WarmthRecord;
    readonly nowMs: number;
  },
): Pick<Prediction, "alive" | "idleMs" | "forAnHour"> {
  const idleMs = nowMs - lastUseMs(sent);
  // What the session showed of the usual time says nothing of the hour.
  return sent.forAnHour
    ? { idleMs, alive: priorWarmth(profileForTtl(profile, HOUR_MS), idleMs), forAnHour: true }
    : { idleMs, alive: estimateWarmth(profile, idleMs, warmth) };
}

/** The tools of a request, as the model sees them. */
interface ShownTools {
  readonly tools: readonly ToolDefinition[];
  readonly countTokens: CountTokens;
}

/** What the cache holds of a request, how likely, and since when: of those sent to its model the one that serves most. */
export function predict(
  sent: readonly SentRequest[],
  { profile, warmth, nowMs, model, ...shown }: ShownTools & {
    readonly profile: Profile;
    readonly warmth: WarmthRecord;
    readonly nowMs: number;
    readonly model: string | undefined;
  },
): Prediction {
  return servesMost(sent, model, (one) => ({
    sharedTokens: sharedTokens(one, shown),
    ...sentWarmth(one, { profile, warmth, nowMs }),
  }));
}

/** Returns what is predicted by that of the requests sent to a model that serves most. */
export function servesMost(
  sent: readonly SentRequest[],
  model: string | undefined,
  predictBy: (sent: SentRequest) => Prediction,
): Prediction {
  let best: Prediction = { sharedTokens: 0, alive: 0, idleMs: 0 };
  for (const one of sent) {
    if (one.model !== model) continue;
    const found = predictBy(one);
    const isBetter = found.alive * found.sharedTokens > best.alive * best.sharedTokens;
    if (isBetter || best.sharedTokens === 0) best = found;
  }
  return best;
}

/** Tokens with which a request that was sent starts like what the model sees now, counted here. */
export function sharedTokens(sent: SentRequest, shown: ShownTools): number {
  const { tokens, isAll } = sharedTools(sent.tools, shown);
  return isAll ? tokens + sent.messageTokens : tokens;
}

/** Tokens with which a request that its client sent alone would start like one that was sent. */
export function sharedAlone(sent: SentRequest, { ownTokens, ...own }: ShownTools & {
  readonly ownTokens: number;
}): number {
  const { tokens, isAll } = sharedTools(sent.ownTools, own);
  return isAll ? Math.min(sent.ownTokens, ownTokens) : tokens;
}

/** Tokens of the tools in front that are those of which the hashes are known, and whether there are no others. */
function sharedTools(hashes: readonly number[], { tools, countTokens }: ShownTools) {
  let tokens = 0;
  for (const [at, tool] of tools.entries()) {
    if (hashPiece(tool) !== hashes[at]) return { tokens, isAll: false };
    tokens += countToolTokens(tool, countTokens);
  }
  return { tokens, isAll: tools.length === hashes.length };
}

/** What a warm cache serves of a prompt, as the provider counts, if it shares so many tokens that are counted here. */
export function servedOf(
  profile: Profile,
  scale: TokenScale,
  { promptTokens, sharedTokens }: { readonly promptTokens: number; readonly sharedTokens: number },
): number {
  if (sharedTokens === 0) return 0;
  return servedTokens(profile, { promptTokens, sharedTokens: scaled(scale, sharedTokens) });
}

/** Whether nothing was sent before; or another model, or other tools, than now. */
export type CacheChange = "first_call" | "model_changed" | "tools_changed" | "none";

/** A request, as far as it may differ from one that was sent. */
interface AskedCall {
  readonly model?: string | undefined;
  readonly tools: readonly ToolDefinition[];
}

/** In what a request differs from one that was sent. */
export function findChange(
  sent: SentRequest | undefined,
  request: AskedCall,
): CacheChange {
  if (!sent) return "first_call";
  if (sent.model !== request.model) return "model_changed";
  const { tools } = request;
  const isSame = tools.length === sent.ownTools.length &&
    tools.every((tool, at) => hashPiece(tool) === sent.ownTools[at]);
  return isSame ? "none" : "tools_changed";
}

export function hashEach(tools: readonly ToolDefinition[]): readonly number[] {
  return tools.map(hashPiece);
}

/** What one call of a session showed of its provider's cache. */
type WarmthObservation = { readonly idleMs: number; readonly warm: boolean };

/** What a session has shown so far. Plain data. */
export interface WarmthRecord {
  /** Calls that came before the end of the profile's first line. */
  readonly promptCalls: number;
  /** Of these, calls that found the prefix gone. */
  readonly misses: number;
  /** How likely each hypothesis is (see {@linkcode estimateWarmth}), relative to the others; empty at first. */
  readonly weights: readonly number[];
}

export const NO_WARMTH: WarmthRecord = { promptCalls: 0, misses: 0, weights: [] };

/** How often a provider may lose a prefix before its time: seldom, now and then, often. */
const LOSS_RATES = [0.02, 0.1, 0.3] as const;

/** How often a prefix is found that should be gone by a hypothesis. */
const SURVIVAL_RATE = 0.03;

/** So many calls of the session outweigh the prior of the profile's first line. */
const PRIOR_CALLS = 50;

type WarmthRules = Pick<Profile, "warmth" | "ttlMs">;

interface Hypothesis {
  readonly ttlMs: number;
  readonly lossRate: number;
  readonly weight: number;
}

export function priorWarmth({ warmth }: Pick<Profile, "warmth">, idleMs: number): number {
  return warmth.find((line) => idleMs <= line.idleMs)?.probability ?? 0;
}

/**
 * Returns the probability that a prefix last used this long ago is still cached: the profile's prior, corrected by the session.
 *
 * Recorded sessions differ less from call to call than from one another. So each line of the profile's table is a
 * hypothesis on this session's time to live, as likely at first as the probability that the table loses at its end, with
 * three rates of early loss each; Bayes' rule weighs them. Calls within the first line only correct that line's probability.
 */
export function estimateWarmth(
  profile: WarmthRules,
  idleMs: number,
  { promptCalls, misses, weights }: WarmthRecord,
): number {
  const first = profile.warmth[0];
  if (!first) return 0;
  if (idleMs <= first.idleMs) {
    return (PRIOR_CALLS * first.probability + promptCalls - misses) / (PRIOR_CALLS + promptCalls);
  }
  let warm = 0;
  let all = 0;
  for (const hypothesis of hypotheses(profile, weights)) {
    warm += hypothesis.weight * warmBy(hypothesis, idleMs);
    all += hypothesis.weight;
  }
  return all > 0 ? warm / all : 0;
}

/** The record after one more call. */
export function observeWarmth(
  profile: WarmthRules,
  { idleMs, warm }: WarmthObservation,
  record: WarmthRecord,
): WarmthRecord {
  const first = profile.warmth[0];
  if (!first) return record;
  if (idleMs <= first.idleMs) {
    return { ...record, promptCalls: record.promptCalls + 1, misses: record.misses + (warm ? 0 : 1) };
  }
  const weighed = hypotheses(profile, record.weights).map((hypothesis) => {
    const chance = warmBy(hypothesis, idleMs);
    return hypothesis.weight * (warm ? chance : 1 - chance);
  });
  const all = weighed.reduce((sum, weight) => sum + weight, 0);
  return { ...record, weights: weighed.map((weight) => weight / all) };
}

function warmBy({ ttlMs, lossRate }: Hypothesis, idleMs: number): number {
  return idleMs <= ttlMs ? 1 - lossRate : SURVIVAL_RATE;
}

function hypotheses({ warmth, ttlMs: statedMs }: WarmthRules, weights: readonly number[]): Hypothesis[] {
  const [seldom, ...oftener] = LOSS_RATES;
  const lost = 1 - priorWarmth({ warmth }, statedMs);
  // A profile that loses a tenth before its time is open to any rate; one that loses a hundredth hardly to a high one.
  const open = Math.min(1, (10 * lost) ** 2);
  const rates = [
    { lossRate: Math.min(seldom, lost), chance: 1 },
    ...oftener.map((lossRate) => ({ lossRate, chance: open })),
  ];
  return warmth.flatMap(({ idleMs: ttlMs, probability }, line) =>
    rates.map(({ lossRate, chance }, rate) => ({
      ttlMs,
      lossRate,
      // A line that loses nothing stays possible.
      weight: weights[line * rates.length + rate] ??
        chance * Math.max(1e-6, probability - (warmth[line + 1]?.probability ?? 0)),
    }))
  );
}
