import { Session } from "@tare/session/internal";
import {
  contentText,
  countRequestTokens,
  type CountTokens,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { countMessageTokens, reasonOf } from "@tare/messages/internal";
import { type LedgerEntry, readTooLong, type SessionView } from "@tare/planner";
import { type routeToCache, servedTokens } from "@tare/planner/internal";
import { RECALL_TOOL, recallOriginal } from "@tare/prune";
import { placeholderRefs } from "@tare/prune/internal";
import { CALL_TOOL, FIND_TOOLS, findTools, measureDeferral } from "@tare/schemas/internal";
import {
  type deferTools,
  type ItemPart,
  type Protocol,
  readItems,
  type RequestReaders,
  toolsInFront,
  type WireItem,
  type WireReply,
  type WireRequest,
  withFoundTools,
  writeRequest,
} from "@tare/wire/internal";
import { fullTokens, pairForwarding, tokensOmitted, withoutSearches } from "./deferral.ts";
import type { HeldPrompt, HeldPrompts } from "@tare/planner/internal/parts";
import type { Followed } from "./request_cache.ts";
import type { HiddenPlace } from "./sessions/history.ts";
import type { GatewaySession } from "./sessions/session.ts";

type Recalled = Parameters<typeof recallOriginal>[1];

interface GatewayTurnOptions {
  readonly client: string;
  /** Whether replies include the model's text. Default: only those that may be a summary. */
  readonly keepsText?: boolean;
  readonly session: GatewaySession;
  readonly request: WireRequest;
  /** The deferred tools. Default: none. */
  readonly deferred?: ReturnType<typeof deferTools> | undefined;
  /** Whether the model may call tools by a pair of tools, now or earlier in the session. Default: false. */
  readonly hasPair?: boolean;
  readonly recall: boolean;
  readonly follows?: Followed | undefined;
  /** The planner of prompts. Default: none, as if the upstream stores the history. */
  readonly prompts: Pick<Session, "view" | "sent" | "rejected"> | undefined;
  /** Purpose of a request that is no turn: it gets the newest prompt of its session. Default: it is a turn. */
  readonly oneShot?: ItemPart["purpose"];
  /**
   * Whether it precedes the first turn, or is that one: it is planned like a turn, with the client's own cache
   * breakpoints, since others may never be read. Default: false.
   */
  readonly precedes?: boolean;
  /**
   * Returns fields and headers that route a conversation's requests to one cache, by its key; cache breakpoints are
   * then added. Default: neither.
   */
  readonly route?: ((key: string) => ReturnType<typeof routeToCache>) | undefined;
  readonly countTokens: CountTokens;
  readonly held: HeldPrompts;
  readonly readers: RequestReaders;
  /** Called with each item of a reply that requests may reference. */
  readonly seen?: Parameters<WireRequest["protocol"]["writer"]>[1]["seen"];
  readonly now: () => number;
}

export interface SentCall {
  /** Estimated if the upstream reports none. */
  readonly usage: NonNullable<WireReply["usage"]>;
  /** Tokens that were removed from its prompt, counted locally. */
  readonly savedTokens: number;
  /** Its entry in the ledger. Absent: it is no turn, or the policy has no ledger. */
  readonly entry?: LedgerEntry;
}

/** One request of a client: a call of the upstream, or several if the model recalls. */
export class GatewayTurn {
  readonly client: string;
  readonly session: GatewaySession;
  readonly writer: ReturnType<Protocol["writer"]>;
  readonly #options: GatewayTurnOptions;
  /** Items after the client's request. */
  readonly #added: WireItem[] = [];
  readonly #answers: (readonly string[])[] = [];
  readonly #recalled = new Set<string>();
  #view: SessionView | undefined;
  #sending: HeldPrompt | undefined;
  /** Tokens of the newest prompt in the provider's cache, counted locally; `undefined` if unknown. */
  #heldTokens: number | undefined;
  #routed: ReturnType<typeof routeToCache> | undefined;
  #edited = false;
  #isLast = false;
  #repeatedRecalls = 0;
  #deferred: GatewayTurnOptions["deferred"];

  constructor(options: GatewayTurnOptions) {
    const { client, session, request, deferred, hasPair = false, recall, seen, oneShot } = options;
    const { keepsText = oneShot !== undefined } = options;
    this.#options = options;
    this.#deferred = deferred;
    this.client = client;
    this.session = session;
    const name = recall ? RECALL_TOOL.function.name : undefined;
    const hidesSearches = deferred !== undefined;
    const pair = hasPair ? pairForwarding(toolsInFront(request)) : undefined;
    this.writer = request.protocol.writer(request, { recall: name, pair, hidesSearches, seen, keepsText });
  }

  get request(): WireRequest {
    return this.#options.request;
  }

  get oneShot(): ItemPart["purpose"] {
    return this.#options.oneShot;
  }

  /** Whether the upstream received anything but the client's own bytes. */
  get edited(): boolean {
    return this.#edited;
  }

  get isLast(): boolean {
    return this.#isLast;
  }

  /** Number of replies that only repeated earlier recalls. */
  get repeatedRecalls(): number {
    return this.#repeatedRecalls;
  }

  get view(): SessionView | undefined {
    return this.#view;
  }

  /** Headers of the newest call unless the client sends one of them. */
  get routeHeaders(): ReturnType<typeof routeToCache>["headers"] {
    return this.#routed?.headers ?? {};
  }

  get warnings(): readonly string[] {
    return this.#view?.warnings ?? [];
  }

  get isRewritten(): boolean {
    return (this.#view?.rewrites.length ?? 0) > 0;
  }

  headers(): Readonly<Record<string, string>> {
    const { session: { session }, request, countTokens } = this.#options;
    const { epoch, savedCostUnits } = session.state;
    const messages = messagesOf(request.items);
    const tools = toolsInFront(request);
    const tokens = countRequestTokens({ messages, tools }, countTokens);
    return {
      "x-tare-session": session.id,
      "x-tare-epoch": String(epoch),
      "x-tare-tokens-received": String(tokens),
      ...(this.#view && {
        "x-tare-tokens-sent": String(this.#view.promptTokens),
        "x-tare-cached-predicted": String(this.#predictedTokens(this.#view)),
      }),
      // Policies without a cost model have no estimate.
      ...(session.hasLedger && { "x-tare-saved-cost-units": String(Math.round(savedCostUnits)) }),
    };
  }

  /**
   * Plans the next call and returns its body. The `last` call of a turn has no recall tool and all definitions, so that
   * the model writes a reply.
   */
  async prompt(signal: AbortSignal, last = false): Promise<Uint8Array<ArrayBuffer>> {
    const { session, follows, prompts, countTokens, now, oneShot, route, precedes, hasPair } = this.#options;
    const recall = this.#options.recall && !last;
    this.#isLast = last;
    if (last && hasPair) this.restoreTools();
    const request = this.#deferred?.request ?? this.request;
    await Session.inSlices(counting(request, countTokens));
    const { protocol } = request;
    const isTurn = oneShot === undefined;
    const expanded = session.expand(request.items, { isTurn, protocol });
    const heads = expanded.filter(({ bytes }) => !bytes).length;
    const all = [
      ...expanded.slice(0, heads),
      ...this.#itemsOf(follows?.owed ?? []),
      ...expanded.slice(heads),
      ...this.#added,
    ];
    const { items: spelled, deferred: searched } = this.#withFound(all);
    const { items, messages, isRespelled } = session.recognize(spelled, { isTurn });
    const deferred = hasPair ? this.#looked(messages) : searched;
    const history = { messages, tools: this.#tools(recall) };
    const own = isRespelled ? messagesOf(spelled) : history.messages;
    if (prompts) {
      const call = {
        nowMs: now(),
        model: request.model,
        replyTokens: request.replyTokens,
        recall,
        signal,
        oneShot: oneShot !== undefined && !precedes || last,
        spelled: own,
        ...(deferred && { deferred: { ...deferred, tools: toolsInFront(this.request) } }),
      };
      this.#view = await prompts.view(history, call);
    }
    this.#routed = route?.(session.session.cacheKey(history.messages, { isTurn }));
    let ends: readonly number[] | undefined;
    const bytes = writeRequest(withKnown(request, spelled, items), {
      items,
      ...(this.#view ?? { ...history, places: history.messages.map((_, at) => at) }),
      sharedCount: this.#view && session.sharedWith(this.#view.messages),
      isLast: oneShot === "compaction",
      follows: follows?.upstreamId,
      fields: this.#routed?.fields,
      completesBreakpoints: precedes
        ? undefined
        : this.#routed && (this.#routed.needsBreakpoints ? "any" : "some"),
      marked: (at) => ends = at,
    });
    this.#edited ||= bytes !== request.bytes;
    const { messages: visible, tools } = this.#view ?? history;
    const places = this.#view?.places;
    const sent = !isRespelled ? visible : visible.map((message, at) => {
      const place = places ? places[at] ?? -1 : at;
      return message === messages[place] ? own[place]! : message;
    });
    this.#recordSending({
      tools,
      messages: sent,
      client: this.client,
      model: request.model,
      ends,
      countTokens,
    });
    return bytes;
  }

  /**
   * Returns the items with the tools that they find, and the tokens that deferring removes. Hidden items lose
   * references to tools that the request doesn't have.
   */
  #withFound(
    items: readonly WireItem[],
  ): { readonly items: readonly WireItem[]; readonly deferred?: Deferral } {
    const { request: { items: theirs, tools, protocol }, readers, countTokens } = this.#options;
    const deferred = this.#deferred;
    const hidden = new Set(protocol.toolSearch && items);
    for (const item of theirs) hidden.delete(item);
    const reading = { protocol, readers, countTokens };
    const names = new Set(deferred && tools?.map(({ definition }) => definition.function.name));
    const isKnown = ({ parts }: WireItem) =>
      parts.every(({ finds = [] }) => finds.every((name) => names.has(name)));
    const mayShow = (item: WireItem) => !hidden.has(item) || (deferred !== undefined && isKnown(item));
    const visible = hidden.size === 0
      ? items
      : items.map((item) => mayShow(item) ? item : withoutSearches(item, reading));
    const found = withFoundTools(visible, tools);
    if (!deferred) return { items: found };
    return {
      items: found,
      deferred: tokensOmitted(deferred, found.filter((_, at) => hidden.has(items[at]!)), reading),
    };
  }

  /** Returns the tokens that the pair of tools removes from a prompt with these messages. */
  #looked(messages: readonly Message[]): Deferral | undefined {
    const { countTokens } = this.#options;
    const { definitions = [], added: pair = [] } = this.#deferred ?? {};
    const full = fullTokens(definitions, countTokens);
    const measured = measureDeferral(messages, { fullTokens: full, pair, countTokens });
    return this.#deferred || measured.tokens !== 0 ? measured : undefined;
  }

  /** Restores the definitions of deferred tools, from the next call on. */
  restoreTools(): void {
    this.#deferred = undefined;
    this.session.restoreTools();
  }

  #recordSending(sending: HeldPrompt): void {
    const { session, held } = this.#options;
    this.#sending = sending;
    this.#heldTokens = session.isHeldKnown ? held.held(sending) : undefined;
  }

  #predictedTokens({ promptTokens, predictedCachedTokens }: SessionView): number {
    if (this.#heldTokens === undefined) return predictedCachedTokens;
    const { profile } = this.session.session;
    return servedTokens(profile, { promptTokens, sharedTokens: this.#heldTokens });
  }

  /**
   * Returns a request that was rejected for its length, without the evicted parts of its session that it quotes: the
   * oldest are removed first, as many as the limit in `words` requires, or all. `undefined` if it quotes none.
   */
  async withoutQuotes(words: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { session, request: { bytes } } = this.#options;
    if (!this.oneShot || this.#edited) return undefined;
    const { windowTokens = 0, promptTokens = Infinity } = readTooLong(words) ?? {};
    return await elideQuotes(bytes, session, QUOTED_SHARE * windowTokens / promptTokens);
  }

  /** Notes that the upstream rejected the newest call with this message. Returns whether a shorter one is possible. */
  rejected(words: string): boolean {
    const { prompts, oneShot, precedes } = this.#options;
    const isPlanned = !oneShot || precedes || oneShot === "compaction";
    if (!this.#view || !prompts || !isPlanned) return false;
    return prompts.rejected(words, this.#view);
  }

  get countTokens(): CountTokens {
    return this.#options.countTokens;
  }

  /**
   * Notes a reply and returns its usage: what the upstream didn't report is estimated, by the prompt and by `written`
   * tokens.
   */
  sent({ usage: reported }: Pick<WireReply, "usage">, written: number): SentCall {
    const { prompts, held, now, countTokens } = this.#options;
    // The provider caches it whatever its purpose is.
    if (this.#sending) held.read(this.#sending, now());
    const usage = reported ?? {
      promptTokens: this.#view?.promptTokens ??
        (this.#sending ? countRequestTokens(this.#sending, countTokens) : 0),
      cachedTokens: 0,
      outputTokens: written,
      estimated: true,
    };
    if (!this.#view || !prompts) return { usage, savedTokens: 0 };
    const entry = prompts.sent(usage, this.#view, this.#heldTokens);
    if (!this.#options.oneShot || !this.session.isBegun) {
      const sent = this.#sending!;
      this.session.sent(this.#view, () => held.stored(sent));
      if (this.#edited) this.session.accepted();
    }
    const savedTokens = Object.values(this.#view.saved).reduce((sum, tokens) => sum + tokens, 0);
    return { usage: entry?.usage ?? usage, savedTokens, ...(entry && { entry }) };
  }

  async recall(reply: WireReply): Promise<void> {
    const answers = await Promise.all(
      reply.recalls.map(async (call) => ({ id: call.id, text: await this.#answer(call) })),
    );
    const keyOf = (call: WireReply["recalls"][number]) => `${call.name} ${call.arguments}`;
    if (reply.recalls.every((call) => this.#recalled.has(keyOf(call)))) this.#repeatedRecalls++;
    for (const call of reply.recalls) this.#recalled.add(keyOf(call));
    const written = this.#options.request.protocol.writeAnswers(answers);
    this.#answers.push(written);
    this.#added.push(...this.#itemsOf([...reply.items, ...written]));
  }

  /** Ends the turn: stores the items that are hidden from the client. */
  remember(): void {
    const { session, request, oneShot } = this.#options;
    if (oneShot) return;
    const after = request.items.length;
    const hidden = this.writer.hidden(this.#answers).map(({ items, ...place }, part): HiddenPlace => ({
      ...place,
      after,
      part,
      items: this.#itemsOf(items),
    }));
    session.hide(hidden);
  }

  get lastAnswers(): readonly string[] {
    return this.#answers.at(-1) ?? [];
  }

  /** Returns definitions; if there are none, restores all. */
  #find(text: string): string {
    const { request, countTokens } = this.#options;
    const { definitions = toolsInFront(request) } = this.#deferred ?? {};
    const { query = "", limit } = readObject(text);
    const options = { countTokens, ...(typeof limit === "number" && { limit }) };
    const found = findTools(definitions, String(query), options);
    if (found === undefined) this.restoreTools();
    return found ?? `No tool fits ${JSON.stringify(query)}. ${RESTORED}`;
  }

  async #answer({ name, arguments: text }: WireReply["recalls"][number]): Promise<string> {
    const { session, countTokens } = this.#options;
    if (name === FIND_TOOLS.function.name) return this.#find(text);
    if (name === CALL_TOOL.function.name) {
      this.restoreTools();
      return `Cannot call a tool: its name or arguments are invalid. ${RESTORED}`;
    }
    try {
      const given: Pick<Recalled, keyof Recalled> = JSON.parse(text.trim() || "{}");
      const visible = () => this.#view?.messages ?? [];
      const archive = session.readableWith(visible);
      return (await recallOriginal(archive, given, { countTokens, visible })).content;
    } catch (error) {
      return `Cannot recall: ${reasonOf(error)}`;
    }
  }

  #tools(recall: boolean): readonly ToolDefinition[] {
    const definitions = toolsInFront(this.#deferred?.request ?? this.request);
    return recall ? [...definitions, RECALL_TOOL] : definitions;
  }

  #itemsOf(pieces: readonly string[]): readonly WireItem[] {
    const { readers, request: { protocol } } = this.#options;
    return readItems(pieces, { protocol, readers });
  }
}

type Deferral = ReturnType<typeof tokensOmitted>;

const RESTORED = "The tools now have their full definitions; call them by name.";

function readObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    // Nothing is found by it.
    return {};
  }
}

function withKnown(
  request: WireRequest,
  spelled: readonly WireItem[],
  known: readonly WireItem[],
): WireRequest {
  if (known === spelled) return request;
  const now = new Map(spelled.map((item, at) => [item, known[at]!]));
  return { ...request, items: request.items.map((item) => now.get(item) ?? item) };
}

function messagesOf(items: readonly WireItem[]): readonly Message[] {
  const messages: Message[] = [];
  for (const { parts } of items) for (const { message } of parts) messages.push(message);
  return messages;
}

/**
 * Counts the tokens of a request's new messages, one per step; results are cached, but a long history takes time at
 * first.
 */
function* counting({ items, known }: WireRequest, countTokens: CountTokens): Generator<void, void> {
  for (const message of messagesOf(items.slice(known?.items.length))) {
    countMessageTokens(message, countTokens);
    yield;
  }
}

/** Shortest quote that is searched, in UTF-16 code units of JSON: clients may truncate quotes. */
const LEAST_CHARS = 400;

const QUOTED_SHARE = 0.95;

/**
 * Returns a request with quotes of evicted text replaced by their placeholders, the oldest first, until it is reduced
 * to this share of its length. `undefined` if it quotes none.
 */
async function elideQuotes(
  body: Uint8Array<ArrayBuffer>,
  session: Pick<GatewaySession, "visible" | "archive">,
  share: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const before = new TextDecoder().decode(body);
  let text = before;
  for (const [original, line] of await goneOf(session)) {
    if (text.length <= share * before.length) break;
    text = withoutQuotes(text, jsonOf(original), jsonOf(line));
  }
  return text === before ? undefined : new TextEncoder().encode(text);
}

/** Returns a text with each quote of an original, from its beginning, replaced by a placeholder. */
function withoutQuotes(text: string, original: string, line: string): string {
  const head = original.slice(0, LEAST_CHARS);
  const pieces: string[] = [];
  let from = 0;
  for (let at = text.indexOf(head); at >= 0; at = text.indexOf(head, from)) {
    let length = head.length;
    while (length < original.length && text[at + length] === original[length]) length++;
    // An escape sequence must not be cut.
    while (/\\(?:u\w{0,3})?$/.test(original.slice(Math.max(0, length - 5), length))) length--;
    pieces.push(text.slice(from, at), line);
    from = at + length;
  }
  return pieces.join("") + text.slice(from);
}

/** Returns the texts of evicted results, each with its placeholder. */
async function goneOf(
  { visible, archive }: Pick<GatewaySession, "visible" | "archive">,
): Promise<(readonly [original: string, line: string])[]> {
  const gone: [string, string][] = [];
  for (const message of visible) {
    // Messages without placeholders may be known only by their hashes.
    if (typeof message === "number") continue;
    const line = contentText(message.content);
    for (const ref of placeholderRefs(line)) {
      const archived = await archive.get(ref);
      if (archived === undefined) continue;
      const originals = message.role === "tool" ? [archived] : resultsIn(archived);
      gone.push(...originals.map((text): [string, string] => [text.trim(), line]));
    }
  }
  return gone.filter(([original]) => original.length >= LEAST_CHARS);
}

function resultsIn(archived: string): string[] {
  try {
    return archived.split("\n").map((line) => JSON.parse(line))
      .flatMap((message) => message?.role === "tool" ? [contentText(message.content)] : []);
  } catch {
    // Not messages: a user may quote such a line.
    return [];
  }
}

function jsonOf(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
