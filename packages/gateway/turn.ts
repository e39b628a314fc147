import { Session } from "@tare/session/internal";
import {
  contentText,
  countRequestTokens,
  type CountTokens,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { countMessageTokens, reasonOf } from "@tare/messages/internal";
import { type LedgerEntry, type PromptCall, readTooLong, type SessionView } from "@tare/planner";
import { type routeToCache, servedTokens } from "@tare/planner/internal";
import { RECALL_TOOL, recallOriginal } from "@tare/prune";
import { placeholderRefs } from "@tare/prune/internal";
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
import { keptOut, withoutSearches } from "./deferral.ts";
import type { HeldPrompt, HeldPrompts } from "@tare/planner/internal/parts";
import type { Followed } from "./request_cache.ts";
import type { HiddenPlace } from "./sessions/history.ts";
import type { GatewaySession } from "./sessions/session.ts";

/** What a model asks to have back. */
type Recalled = Parameters<typeof recallOriginal>[1];

/** What a turn works with. */
interface GatewayTurnOptions {
  /** Tells its client from others. */
  readonly client: string;
  /** Whether replies tell what the model said. Default: only those that may be a summary. */
  readonly keepsText?: boolean;
  /** The session that it belongs to. */
  readonly session: GatewaySession;
  readonly request: WireRequest;
  /** What is deferred of its tools. Default: nothing is. */
  readonly deferred?: ReturnType<typeof deferTools> | undefined;
  /** Whether the recall tool is offered. */
  readonly recall: boolean;
  /** The response that the request follows. Default: none that is known. */
  readonly follows?: Followed | undefined;
  /** Decides what leaves the prompt. Default: nobody does, as where the upstream keeps the history itself. */
  readonly prompts: Pick<Session, "view" | "sent" | "rejected"> | undefined;
  /** What the request is for if it isn't a turn: it gets the view that the model had last. Default: it is one. */
  readonly oneShot?: ItemPart["purpose"];
  /**
   * Whether it comes before the first turn, or is that one: it is planned like a turn. Its cache breakpoints stay as the client
   * set them, since nothing may ever read what more of them would write. Default: it isn't.
   */
  readonly precedes?: boolean;
  /**
   * What requests of a conversation of this name say to have their prompts cached in one place. With it more of a prompt is
   * marked for the cache than the client does. Default: nothing is said or marked.
   */
  readonly route?: ((key: string) => ReturnType<typeof routeToCache>) | undefined;
  readonly countTokens: CountTokens;
  /** The prompts that providers have read. */
  readonly held: HeldPrompts;
  /** What items are read with, those of replies too. */
  readonly readers: RequestReaders;
  /** Told of each item of a reply that may be referred to. */
  readonly seen?: Parameters<WireRequest["protocol"]["writer"]>[1]["seen"];
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
}

/** What a call took. */
export interface SentCall {
  /** Estimated if the upstream reported nothing. */
  readonly usage: NonNullable<WireReply["usage"]>;
  /** Tokens that were kept out of it, counted here. */
  readonly savedTokens: number;
  /** What the ledger says of it; nothing of what is no turn, and where the policy keeps none. */
  readonly entry?: LedgerEntry;
}

/** One request of a client: a call of the upstream, or several if the model recalls. */
export class GatewayTurn {
  readonly client: string;
  readonly session: GatewaySession;
  /** Passes the replies on. */
  readonly writer: ReturnType<Protocol["writer"]>;
  readonly #options: GatewayTurnOptions;
  /** What has come since the client's request. */
  readonly #added: WireItem[] = [];
  /** Answers to recalls, by reply. */
  readonly #answers: (readonly string[])[] = [];
  /** Arguments of all recalls. */
  readonly #recalled = new Set<string>();
  #view: SessionView | undefined;
  /** What the newest call sends. */
  #sending: HeldPrompt | undefined;
  /** Tokens with which that begins like what the provider's cache holds, counted here; nothing where that isn't known. */
  #heldTokens: number | undefined;
  #routed: ReturnType<typeof routeToCache> | undefined;
  #edited = false;
  #isLast = false;
  #repeatedRecalls = 0;

  constructor(options: GatewayTurnOptions) {
    const { client, session, request, deferred, recall, seen, oneShot } = options;
    const { keepsText = oneShot !== undefined } = options;
    this.#options = options;
    this.client = client;
    this.session = session;
    const name = recall ? RECALL_TOOL.function.name : undefined;
    const hidesSearches = deferred !== undefined;
    this.writer = request.protocol.writer(request, { recall: name, hidesSearches, seen, keepsText });
  }

  /** What the client asks. */
  get request(): WireRequest {
    return this.#options.request;
  }

  /** What the request is for if it isn't a turn. */
  get oneShot(): ItemPart["purpose"] {
    return this.#options.oneShot;
  }

  /** Whether the upstream was sent anything but the client's own bytes. */
  get edited(): boolean {
    return this.#edited;
  }

  /** Whether the newest call was the last that the turn may make. */
  get isLast(): boolean {
    return this.#isLast;
  }

  /** How many replies have asked for nothing but what was recalled before. */
  get repeatedRecalls(): number {
    return this.#repeatedRecalls;
  }

  /** What the newest call shows, and what was rewritten for it; nothing where nobody plans. */
  get view(): SessionView | undefined {
    return this.#view;
  }

  /** Headers that the newest call has unless its client sends any of them. */
  get routeHeaders(): ReturnType<typeof routeToCache>["headers"] {
    return this.#routed?.headers ?? {};
  }

  /** Sentences for people about the newest view. */
  get warnings(): readonly string[] {
    return this.#view?.warnings ?? [];
  }

  /** Whether the newest view rewrote what the model saw before. */
  get isRewritten(): boolean {
    return (this.#view?.rewrites.length ?? 0) > 0;
  }

  /** What answers to the client say of it. */
  headers(): Readonly<Record<string, string>> {
    const { session: { session }, request, countTokens } = this.#options;
    const { epoch, savedTokenUnits } = session.state;
    const messages = messagesOf(request.items);
    const { definitions = [], search } = this.#options.deferred ?? {};
    const tools = [...this.#tools(false).filter((tool) => tool !== search), ...definitions];
    const tokens = countRequestTokens({ messages, tools }, countTokens);
    return {
      "x-tare-session": session.id,
      "x-tare-epoch": String(epoch),
      "x-tare-tokens-received": String(tokens),
      ...(this.#view && {
        "x-tare-tokens-sent": String(this.#view.promptTokens),
        "x-tare-cached-predicted": String(this.#predictedTokens(this.#view)),
      }),
      // A policy that knows nothing of costs can't tell.
      ...(session.knowsCosts && { "x-tare-saved-token-units": String(Math.round(savedTokenUnits)) }),
    };
  }

  /**
   * Plans the next call and gives its body. In the `last` call that the turn may make nothing can be recalled, so that
   * the model says something.
   */
  async prompt(signal: AbortSignal, last = false): Promise<Uint8Array<ArrayBuffer>> {
    const { session, request, follows, prompts, countTokens, now, oneShot, route, precedes } = this.#options;
    const recall = this.#options.recall && !last;
    this.#isLast = last;
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
    const { items: spelled, deferred } = this.#withFound(all);
    const { items, messages, isRespelled } = session.recognise(spelled, { isTurn });
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
        ...(deferred && { deferred }),
      };
      this.#view = await prompts.view(history, call);
    }
    this.#routed = route?.(session.session.cacheKey(history.messages, { isTurn }));
    let ends: readonly number[] | undefined;
    const bytes = writeRequest(withKnown(request, spelled, items), {
      items,
      ...(this.#view ?? { ...history, places: history.messages.map((_, at) => at) }),
      kept: this.#view && session.keptOf(this.#view.messages),
      isLast: oneShot === "compaction",
      follows: follows?.upstreamId,
      fields: this.#routed?.fields,
      completesMarks: precedes ? undefined : this.#routed && (this.#routed.needsMarks ? "any" : "some"),
      marked: (at) => ends = at,
    });
    this.#edited ||= bytes !== request.bytes;
    const { messages: shown, tools } = this.#view ?? history;
    const places = this.#view?.places;
    const sent = !isRespelled ? shown : shown.map((message, at) => {
      const place = places ? places[at] ?? -1 : at;
      return message === messages[place] ? own[place]! : message;
    });
    this.#send({ tools, messages: sent, client: this.client, model: request.model, ends, countTokens });
    return bytes;
  }

  /**
   * The items with the tools that they find, and what deferring keeps out of them. What of the hidden ones refers to tools that the
   * request doesn't have goes without it.
   */
  #withFound(
    items: readonly WireItem[],
  ): { readonly items: readonly WireItem[]; readonly deferred?: PromptCall["deferred"] } {
    const { request: { items: theirs, tools, protocol }, deferred, readers, countTokens } = this.#options;
    const hidden = new Set(protocol.toolSearch && items);
    for (const item of theirs) hidden.delete(item);
    const reading = { protocol, readers, countTokens };
    const names = new Set(deferred && tools?.map(({ definition }) => definition.function.name));
    const isKnown = ({ parts }: WireItem) =>
      parts.every(({ finds = [] }) => finds.every((name) => names.has(name)));
    const mayShow = (item: WireItem) => !hidden.has(item) || (deferred !== undefined && isKnown(item));
    const shown = hidden.size === 0
      ? items
      : items.map((item) => mayShow(item) ? item : withoutSearches(item, reading));
    const found = withFoundTools(shown, tools);
    if (!deferred) return { items: found };
    return {
      items: found,
      deferred: keptOut(deferred, found.filter((_, at) => hidden.has(items[at]!)), reading),
    };
  }

  #send(sending: HeldPrompt): void {
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
   * A request that was refused in these words for its length and quotes its session, without what had left the model's view:
   * the oldest first, as much as is too much, or all if the words don't tell. Undefined if it quotes none.
   */
  async withoutQuotes(words: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { session, request: { bytes } } = this.#options;
    if (!this.oneShot || this.#edited) return undefined;
    const { windowTokens = 0, promptTokens = Infinity } = readTooLong(words) ?? {};
    return await elideQuotes(bytes, session, QUOTED_SHARE * windowTokens / promptTokens);
  }

  /** Takes note that the upstream refused the newest call in these words. Whether a shorter one can be made. */
  rejected(words: string): boolean {
    const { prompts, oneShot, precedes } = this.#options;
    const isPlanned = !oneShot || precedes || oneShot === "compaction";
    if (!this.#view || !prompts || !isPlanned) return false;
    return prompts.rejected(words, this.#view);
  }

  /** Counts what a model has written. */
  get countTokens(): CountTokens {
    return this.#options.countTokens;
  }

  /**
   * Takes note of a reply, and gives what it took: what the upstream didn't report is estimated, by the prompt and by as many
   * tokens as were `written`.
   */
  sent({ usage: reported }: Pick<WireReply, "usage">, written: number): SentCall {
    const { prompts, held, now, countTokens } = this.#options;
    // The cache holds it, whatever it was for.
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
      this.session.showed(this.#view, () => held.stored(sent));
      if (this.#edited) this.session.accepted();
    }
    const savedTokens = Object.values(this.#view.saved).reduce((sum, tokens) => sum + tokens, 0);
    return { usage: entry?.usage ?? usage, savedTokens, ...(entry && { entry }) };
  }

  /** Answers the recalls of a reply, so that the next call goes on behind them. */
  async recall(reply: WireReply): Promise<void> {
    const answers = await Promise.all(
      reply.recalls.map(async (call) => ({ id: call.id, text: await this.#answer(call) })),
    );
    if (reply.recalls.every((call) => this.#recalled.has(call.arguments))) this.#repeatedRecalls++;
    for (const call of reply.recalls) this.#recalled.add(call.arguments);
    const written = this.#options.request.protocol.writeAnswers(answers);
    this.#answers.push(written);
    this.#added.push(...this.#itemsOf([...reply.items, ...written]));
  }

  /** The turn is over: remembers what the client doesn't know of. */
  remember(): void {
    const { session, request, oneShot } = this.#options;
    // The client doesn't go on from there.
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

  /** The answers that stand behind the last reply. */
  get lastAnswers(): readonly string[] {
    return this.#answers.at(-1) ?? [];
  }

  async #answer({ arguments: text }: WireReply["recalls"][number]): Promise<string> {
    const { session, countTokens } = this.#options;
    try {
      const asked: Pick<Recalled, keyof Recalled> = JSON.parse(text.trim() || "{}");
      const shown = () => this.#view?.messages ?? [];
      const archive = session.readableWith(shown);
      return (await recallOriginal(archive, asked, { countTokens, shown })).content;
    } catch (error) {
      return `Cannot recall: ${reasonOf(error)}`;
    }
  }

  #tools(recall: boolean): readonly ToolDefinition[] {
    const definitions = toolsInFront(this.#options.request);
    return recall ? [...definitions, RECALL_TOOL] : definitions;
  }

  #itemsOf(pieces: readonly string[]): readonly WireItem[] {
    const { readers, request: { protocol } } = this.#options;
    return readItems(pieces, { protocol, readers });
  }
}

/** The request with the items that are known in place of its own. */
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

/** Counts what is new of a request, a message at each step. That is remembered, but of a long history takes a while at first. */
function* counting({ items, known }: WireRequest, countTokens: CountTokens): Generator<void, void> {
  for (const message of messagesOf(items.slice(known?.items.length))) {
    countMessageTokens(message, countTokens);
    yield;
  }
}

/** The shortest quote that is looked for, in UTF-16 code units of JSON: clients may cut what they quote. */
const LEAST_CHARS = 400;

/** Of the text that would fill the window so much is kept: not all of a request is of the same density. */
const QUOTED_SHARE = 0.95;

/**
 * A request that quotes a conversation, as one for a summary may, with what left the view that the model had last given
 * way to the line that stands for it there: the oldest first, until it has become this share of itself. Undefined if it
 * quotes none of that.
 */
async function elideQuotes(
  body: Uint8Array<ArrayBuffer>,
  session: Pick<GatewaySession, "shown" | "archive">,
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

/** A text in which a line stands for each quote of an original, from its beginning as far as it goes. */
function withoutQuotes(text: string, original: string, line: string): string {
  const head = original.slice(0, LEAST_CHARS);
  const pieces: string[] = [];
  let from = 0;
  for (let at = text.indexOf(head); at >= 0; at = text.indexOf(head, from)) {
    let length = head.length;
    while (length < original.length && text[at + length] === original[length]) length++;
    // An escape that is cut in two would be none.
    while (/\\(?:u\w{0,3})?$/.test(original.slice(Math.max(0, length - 5), length))) length--;
    pieces.push(text.slice(from, at), line);
    from = at + length;
  }
  return pieces.join("") + text.slice(from);
}

/** Texts of results that left the view, each with the line that stands for it. */
async function goneOf(
  { shown, archive }: Pick<GatewaySession, "shown" | "archive">,
): Promise<(readonly [original: string, line: string])[]> {
  const gone: [string, string][] = [];
  for (const message of shown) {
    // Of what doesn't stand for anything, only the hash may be known.
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

/** The results among archived messages. */
function resultsIn(archived: string): string[] {
  try {
    return archived.split("\n").map((line) => JSON.parse(line))
      .flatMap((message) => message?.role === "tool" ? [contentText(message.content)] : []);
  } catch {
    // A text that isn't of messages: a user may quote such a line.
    return [];
  }
}

/** A text as it stands in JSON. */
function jsonOf(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
