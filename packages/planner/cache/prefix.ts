import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens, hashBytes, hashPiece, hashText } from "@tare/messages/internal";
import { type Profile, profileForTtl } from "../providers.ts";
import { scaled, type TokenScale } from "./prompt_size.ts";

/**
 * Returns the tokens that a warm cache serves of a prompt that shares this many with a cached one: whole
 * blocks of at least the smallest size, never the last token.
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
 * Piece of a prompt in the provider's cache: a tool definition, a message, or a run of token ids. Pieces with
 * the same hash must be equal.
 */
export interface PromptUnit {
  readonly hash: string | number;
  readonly tokens: number;
}

type CacheRules = Pick<Profile, "minTokens" | "blockTokens" | "ttlMs">;

interface Node {
  readonly children: Map<string | number, Node>;
  usedMs: number;
  /** Whether a prompt is cached up to here. */
  isEnd: boolean;
}

const DEFAULT_MAX_UNITS = 1_000_000;

/** Options of {@linkcode PrefixCache}. */
export interface PrefixCacheOptions {
  /** Most units held in memory. Default: 1,000,000. */
  readonly maxUnits?: number;
}

/** Request for {@linkcode PrefixCache.unitsOf}. */
export interface UnitsRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

/**
 * A pure model of a provider's prefix cache. It holds every prefix that was sent, follows the profile's
 * smallest size, blocks and time to live, and evicts the least recently used when full. Units have the
 * provider's order: tools, system, messages.
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

  constructor(profile: CacheRules, options: PrefixCacheOptions = {}) {
    this.#profile = profile;
    this.#maxUnits = options.maxUnits ?? DEFAULT_MAX_UNITS;
  }

  /** Returns the units of a request: one per tool, then one per message. Results are cached by object. */
  static unitsOf({ messages, tools }: UnitsRequest, countTokens: CountTokens): PromptUnit[] {
    return [
      ...tools.map((tool) => ({ hash: hashBytes(tool), tokens: countToolTokens(tool, countTokens) })),
      ...messages.map((message) => ({
        hash: hashBytes(message),
        tokens: countMessageTokens(message, countTokens),
      })),
    ];
  }

  /**
   * Returns the tokens of this prompt that are cached now, up to the `ends`, in units. Default: up to each
   * unit.
   */
  lookup(units: readonly PromptUnit[], nowMs: number, ends?: readonly number[]): number {
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    return servedTokens(this.#profile, { promptTokens, sharedTokens: this.held(units, nowMs, ends) });
  }

  /** Returns the cached tokens at the start of this prompt, even if a provider would not serve so few. */
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

  /**
   * Stores a processed prompt up to these `ends`, in units, and refreshes the units it used. Default: up to
   * each unit.
   */
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

  /** Removes the older half. No unit is used later than the one before it, so the rest stays connected. */
  #forget(): void {
    const times: number[] = [];
    visit(this.#root, (node) => times.push(node.usedMs));
    times.sort((a, b) => a - b);
    const retainedFromMs = times[times.length >> 1] ?? 0;
    this.#units = 0;
    visit(this.#root, (node) => {
      for (const [hash, child] of node.children) {
        if (child.usedMs < retainedFromMs) node.children.delete(hash);
        else this.#units++;
      }
    });
    if (this.#units <= this.#maxUnits) return;
    this.#root.children.clear();
    this.#units = 0;
  }
}

/**
 * Calls `see` for `root` and each node below it, parents first, without recursion because prompts are long.
 */
function visit(root: Node, see: (node: Node) => void): void {
  const pending = [root];
  for (let node = pending.pop(); node; node = pending.pop()) {
    see(node);
    for (const child of node.children.values()) pending.push(child);
  }
}

const UNIT_BYTES = 200;

/** Characters per piece of the first messages: about a block of a cache. */
const PIECE_CHARS = 500;

/** Longest text, in UTF-16 code units, whose pieces are counted one by one. */
const COUNTED_CHARS = 2 ** 16;

/** Messages that begin later than this, in UTF-16 code units, are not split into pieces. */
const PIECED_CHARS = 2 ** 18;

function piecedMessages(messages: readonly Message[]): number {
  let chars = 0;
  const end = messages.findIndex(({ content }) => {
    const isFar = chars > PIECED_CHARS;
    chars += contentText(content).length;
    return isFar;
  });
  return end < 0 ? messages.length : end;
}

/** Request whose prefix a provider caches. */
export interface HeldPrompt {
  readonly client: string;
  readonly model: string;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  /** Cache breakpoints, as numbers of messages; 0 is after the tools. Absent: all is cached. */
  readonly ends: readonly number[] | undefined;
  readonly countTokens: CountTokens;
}

/** Cached prefix of a prompt. Plain data. */
export interface StoredPrompt {
  readonly model: string;
  readonly units: readonly PromptUnit["hash"][];
  /** Cache breakpoints, as numbers of units. Absent: all is cached. */
  readonly ends?: readonly number[];
}

/**
 * Prompts that providers cache, of all sessions, up to their cache breakpoints. They take at most `maxBytes`
 * bytes; the least recently used are evicted first.
 */
export class HeldPrompts {
  readonly #cache: PrefixCache;
  readonly #pieces = new WeakMap<Message, readonly PromptUnit[]>();
  readonly #units = new WeakMap<HeldPrompt, readonly PromptUnit[]>();

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    const rules = { minTokens: 0, blockTokens: 1, ttlMs: Infinity };
    this.#cache = new PrefixCache(rules, { maxUnits: Math.ceil(maxBytes / UNIT_BYTES) });
  }

  held(prompt: HeldPrompt): number {
    return this.#cache.held(this.#unitsOf(prompt), 0, endsOf(prompt));
  }

  read(prompt: HeldPrompt, nowMs: number): void {
    this.#cache.store(this.#unitsOf(prompt), nowMs, endsOf(prompt));
  }

  stored(prompt: HeldPrompt): StoredPrompt {
    const units = this.#unitsOf(prompt);
    const hashes = units.slice(1).map(({ hash }) => hash);
    return { model: prompt.model, units: hashes, ...(prompt.ends && { ends: this.#cache.endsIn(units) }) };
  }

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
    // Without breakpoints a cache shares the common start of two texts.
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

  #piecesOf(message: Message, countTokens: CountTokens): readonly PromptUnit[] {
    const known = this.#pieces.get(message);
    if (known) return known;
    const { role, content } = message;
    const isText = typeof content === "string" || content?.every(({ type }) => type === "text");
    const text = isText ? contentText(content) : "";
    const pieces: PromptUnit[] = [];
    const all = countMessageTokens(message, countTokens);
    let left = all;
    // Counting thousands of pieces would block other sessions; the mean is used for long texts.
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
  readonly tools: readonly number[];
  /** Tokens of its messages that the current prompt still starts with. */
  readonly messageTokens: number;
  readonly promptTokens: number;
  readonly isWhole: boolean;
  /** Tokens of the baseline request without compaction. */
  readonly ownTokens: number;
  /** The same with messages that only Tare added, such as recalls. */
  readonly wholeTokens: number;
  /** Hashes of the tools of the baseline request, in full. */
  readonly ownTools: readonly number[];
  /** Tokens of these. Absent: those of its own tools. */
  readonly ownToolTokens?: number;
  /** Absent: its size was not reported. */
  readonly baseline?: BaselinePrompt | undefined;
  readonly atMs: number;
  /**
   * Time of the last use of its cached prefix, if later: by a keep-alive request, or with an hour's lifetime
   * by a request.
   */
  readonly usedMs?: number;
  /** Whether a keep-alive request extended its lifetime to an hour. Default: false. */
  readonly forAnHour?: boolean;
  readonly model?: string | undefined;
}

/** A sent prompt and its baseline without compaction, as counted locally and by the provider. */
export interface BaselinePrompt {
  readonly ownTokens: number;
  readonly providerTokens: number;
  /** Tokens whose count by the provider was never reported, counted locally. */
  readonly estimatedTokens: number;
  readonly sentTokens: number;
  readonly sentProviderTokens: number;
  /** Absent: no tool was deferred. */
  readonly deferred?: DeferredTools;
}

/** Definitions of a baseline request that are not in the request, without what replaces them. */
export interface DeferredTools {
  /** Tokens counted locally; negative if the replacement is longer. */
  readonly tokens: number;
  /** Expected tokens as the provider counts: it never receives the definitions. */
  readonly providerTokens: number;
}

/** Returns a sent prompt's baseline as the provider counts, by the newest estimate of the deferred definitions. */
export function baselineTokensOf(
  { providerTokens, deferred: before }: BaselinePrompt,
  deferred: DeferredTools | undefined,
): number {
  const isSame = before !== undefined && before.tokens === deferred?.tokens;
  return isSame ? providerTokens + deferred.providerTokens - before.providerTokens : providerTokens;
}

interface SharedTokens {
  readonly sharedTokens: number;
  /** The same as the provider counts. Absent: by the session's scale. */
  readonly providerTokens?: number;
}

export interface Prediction extends SharedTokens {
  readonly cacheHitProbability: number;
  readonly idleMs: number;
  readonly forAnHour?: boolean;
}

export const HOUR_MS = 3_600_000;

export function lastUseMs({ atMs, usedMs = atMs }: SentRequest): number {
  return usedMs;
}

export function timeToLive({ forAnHour = false }: SentRequest, { ttlMs }: Pick<Profile, "ttlMs">): number {
  return forAnHour ? Math.max(ttlMs, HOUR_MS) : ttlMs;
}

export function cacheStateOf(
  sent: SentRequest,
  { profile, cacheLifetime, nowMs }: {
    readonly profile: Profile;
    readonly cacheLifetime: CacheLifetimeRecord;
    readonly nowMs: number;
  },
): Pick<Prediction, "cacheHitProbability" | "idleMs" | "forAnHour"> {
  const idleMs = nowMs - lastUseMs(sent);
  // The session's observations of the usual lifetime don't apply to an hour's.
  return sent.forAnHour
    ? {
      idleMs,
      cacheHitProbability: priorCacheLifetime(profileForTtl(profile, HOUR_MS), idleMs),
      forAnHour: true,
    }
    : { idleMs, cacheHitProbability: estimateCacheLifetime(profile, idleMs, cacheLifetime) };
}

interface VisibleTools {
  readonly tools: readonly ToolDefinition[];
  readonly countTokens: CountTokens;
}

/**
 * Returns the cached prefix of a request, its hit probability and age, from the request to this model that
 * serves most.
 */
export function predict(
  sent: readonly SentRequest[],
  { profile, cacheLifetime, nowMs, model, ...visible }: VisibleTools & {
    readonly profile: Profile;
    readonly cacheLifetime: CacheLifetimeRecord;
    readonly nowMs: number;
    readonly model: string | undefined;
  },
): Prediction {
  return servesMost(sent, model, (one) => ({
    sharedTokens: sharedTokens(one, visible),
    ...cacheStateOf(one, { profile, cacheLifetime, nowMs }),
  }));
}

export function servesMost(
  sent: readonly SentRequest[],
  model: string | undefined,
  predictBy: (sent: SentRequest) => Prediction,
): Prediction {
  let best: Prediction = { sharedTokens: 0, cacheHitProbability: 0, idleMs: 0 };
  for (const one of sent) {
    if (one.model !== model) continue;
    const found = predictBy(one);
    const isBetter =
      found.cacheHitProbability * found.sharedTokens > best.cacheHitProbability * best.sharedTokens;
    if (isBetter || best.sharedTokens === 0) best = found;
  }
  return best;
}

/** Returns the tokens of the current prompt that equal the start of an earlier request, counted locally. */
export function sharedTokens(sent: SentRequest, visible: VisibleTools): number {
  const { tokens, isAll } = sharedTools(sent.tools, visible);
  return isAll ? tokens + sent.messageTokens : tokens;
}

/** Returns the tokens that a baseline request shares with an earlier one. */
export function baselineShared(sent: SentRequest, { ownTokens, deferred, scale, ...own }: VisibleTools & {
  readonly ownTokens: number;
  readonly deferred?: DeferredTools | undefined;
  readonly scale: TokenScale;
}): SharedTokens {
  const { tokens, isAll } = sharedTools(sent.ownTools, own);
  if (!isAll) return { sharedTokens: tokens };
  const { baseline } = sent;
  const sharedTokens = Math.min(sent.ownTokens, ownTokens);
  const goneTokens = (baseline?.ownTokens ?? Infinity) - sharedTokens;
  // The scale alone estimates less if little is left.
  if (!baseline || goneTokens > sharedTokens) {
    return {
      sharedTokens,
      ...(deferred && { providerTokens: toProvider(sharedTokens, { deferred, scale }) }),
    };
  }
  const known = baselineTokensOf(baseline, deferred);
  return { sharedTokens, providerTokens: Math.max(0, known - scale.perToken * goneTokens) };
}

/** Returns the tokens of a baseline prompt's start with all tools, as the provider counts. */
export function toProvider(
  tokens: number,
  { deferred = { tokens: 0, providerTokens: 0 }, scale }: {
    readonly deferred?: DeferredTools | undefined;
    readonly scale: TokenScale;
  },
): number {
  return deferred.providerTokens + scaled(scale, tokens - deferred.tokens);
}

function sharedTools(hashes: readonly number[], { tools, countTokens }: VisibleTools) {
  let tokens = 0;
  for (const [at, tool] of tools.entries()) {
    if (hashPiece(tool) !== hashes[at]) return { tokens, isAll: false };
    tokens += countToolTokens(tool, countTokens);
  }
  return { tokens, isAll: tools.length === hashes.length };
}

/** Returns the tokens that a warm cache serves, as the provider counts, for shared tokens counted locally. */
export function servedOf(
  profile: Profile,
  scale: TokenScale,
  { promptTokens, ...shared }: { readonly promptTokens: number } & SharedTokens,
): number {
  if (shared.sharedTokens === 0) return 0;
  return servedTokens(profile, { promptTokens, sharedTokens: providerShared(shared, scale) });
}

/** Returns shared tokens as the provider counts. */
export function providerShared({ sharedTokens, providerTokens }: SharedTokens, scale: TokenScale): number {
  return sharedTokens === 0 ? 0 : providerTokens ?? scaled(scale, sharedTokens);
}

export type CacheChange = "first_call" | "model_changed" | "tools_changed" | "none";

interface PrefixCall {
  readonly model?: string | undefined;
  readonly tools: readonly ToolDefinition[];
}

export function findChange(
  sent: SentRequest | undefined,
  request: PrefixCall,
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

type CacheObservation = { readonly idleMs: number; readonly warm: boolean };

export interface CacheLifetimeRecord {
  /** Calls within the first entry of the profile's table. */
  readonly promptCalls: number;
  /** Cache misses among these. */
  readonly misses: number;
  /** Relative weight of each hypothesis (see {@linkcode estimateCacheLifetime}); empty at first. */
  readonly weights: readonly number[];
}

export const NO_CACHE_LIFETIME: CacheLifetimeRecord = { promptCalls: 0, misses: 0, weights: [] };

const LOSS_RATES = [0.02, 0.1, 0.3] as const;

const SURVIVAL_RATE = 0.03;

/** Weight of the prior of the table's first entry, in calls. */
const PRIOR_CALLS = 50;

type CacheLifetimeRules = Pick<Profile, "cacheLifetime" | "ttlMs">;

interface Hypothesis {
  readonly ttlMs: number;
  readonly lossRate: number;
  readonly weight: number;
}

export function priorCacheLifetime(
  { cacheLifetime }: Pick<Profile, "cacheLifetime">,
  idleMs: number,
): number {
  return cacheLifetime.find((line) => idleMs <= line.idleMs)?.probability ?? 0;
}

/**
 * Returns the probability that a prefix last used this long ago is still cached: the profile's prior,
 * corrected by the session. Sessions differ more from one another than calls of one session. So each entry of
 * the profile's table is a hypothesis about this session's time to live; its prior is the probability that
 * the table loses at its end. Each has three rates of early loss. Bayes' rule weighs the hypotheses. Calls
 * within the first entry only correct that entry's probability.
 */
export function estimateCacheLifetime(
  profile: CacheLifetimeRules,
  idleMs: number,
  { promptCalls, misses, weights }: CacheLifetimeRecord,
): number {
  const first = profile.cacheLifetime[0];
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

export function observeCacheLifetime(
  profile: CacheLifetimeRules,
  { idleMs, warm }: CacheObservation,
  record: CacheLifetimeRecord,
): CacheLifetimeRecord {
  const first = profile.cacheLifetime[0];
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

function hypotheses(
  { cacheLifetime, ttlMs: statedMs }: CacheLifetimeRules,
  weights: readonly number[],
): Hypothesis[] {
  const [seldom, ...oftener] = LOSS_RATES;
  const lost = 1 - priorCacheLifetime({ cacheLifetime }, statedMs);
  // The more a profile loses before its time, the likelier are high rates.
  const open = Math.min(1, (10 * lost) ** 2);
  const rates = [
    { lossRate: Math.min(seldom, lost), chance: 1 },
    ...oftener.map((lossRate) => ({ lossRate, chance: open })),
  ];
  return cacheLifetime.flatMap(({ idleMs: ttlMs, probability }, line) =>
    rates.map(({ lossRate, chance }, rate) => ({
      ttlMs,
      lossRate,
      weight: weights[line * rates.length + rate] ??
        chance * Math.max(1e-6, probability - (cacheLifetime[line + 1]?.probability ?? 0)),
    }))
  );
}
