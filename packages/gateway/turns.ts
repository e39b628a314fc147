import type { Warmth } from "@tare/session";
import { Session } from "@tare/session/internal";
import { type CallReport, reportCall, type Sums, sumsOf, UNFINISHED } from "@tare/session/internal/report";
import { contentText, type CountTokens } from "@tare/messages";
import { reasonOf } from "@tare/messages/internal";
import { listPrice, listWindow, readTooLong } from "@tare/planner";
import {
  type About,
  compactionOf,
  MESSAGES_PROVIDER,
  profileForTtl,
  routeToCache,
  searchesTools,
} from "@tare/planner/internal";
import type { Rates, StoredPrompt } from "@tare/planner/internal/parts";
import { policySession } from "@tare/planner/policies";
import { RECALL_TOOL } from "@tare/prune";
import {
  deferTools,
  type ItemPart,
  jsonExcess,
  type Protocol,
  PROTOCOLS,
  readField,
  readingRequest,
  readWireBody,
  type WireItem,
  type WireReply,
  type WireRequest,
} from "@tare/wire/internal";
import { LRUCache } from "lru-cache";
import { createHash } from "node:crypto";
import { setTimeout as setTimer } from "node:timers";
import { functionsInFront } from "./deferral.ts";
import { type EndedTurn, keyOf, pingableOf, SubAgents } from "./keep_warm.ts";
import { type Followed, RequestCache } from "./request_cache.ts";
import type { SetOptions } from "./options.ts";
import { countInstructions, hasAnswers, textOf } from "./sessions/history.ts";
import type { Compaction, GatewaySession, Making, Recognised, SessionFacts } from "./sessions/session.ts";
import { GatewaySessions } from "./sessions/sessions.ts";
import { GatewayTurn, type SentCall } from "./turn.ts";
import { upstreamOf } from "./http.ts";

/** A request for the upstream, and its body. */
export interface Call {
  readonly request: Request;
  /** Aborted if the client disconnects before the answer begins. Absent: that isn't reported. */
  readonly signal?: AbortSignal | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Name of the key with which it came; absent: the owner's. */
  readonly by: string | undefined;
  /** Whether only its tokens shall be counted. Default: it is a model call. */
  readonly counts?: boolean;
}

const DAY_MS = 24 * 60 * 60_000;

/** Longest body of a request that is planned; what is longer is more than any model reads, and passes as it comes. */
const MAX_PLANNED_BYTES = 16 * 2 ** 20;

/** From so many bytes on, others are let in between two passes over a body. */
const LARGE_BYTES = 2 ** 20;

function letOthersIn(): Promise<void> {
  return new Promise((resolve) => setTimer(resolve));
}

/** So many windows are remembered that errors have told. */
const MAX_WINDOWS = 1_000;

/** Finds out which conversation each request belongs to, and takes note of what becomes of it. */
export class Turns {
  readonly sessions: GatewaySessions;
  readonly #options: SetOptions;
  #countTokens: CountTokens | undefined;
  readonly #cache: RequestCache;
  /** Absent: nothing is kept warm. */
  readonly #warmth: Warmth | undefined;
  readonly #subAgents = new SubAgents();
  /** Windows that errors have told, by client: an error may quote what that client has said. */
  readonly #windows = new LRUCache<string, number>({ max: MAX_WINDOWS });
  /** By client and model: those whose newest request asked for a window of a million tokens. */
  readonly #millions = new LRUCache<string, true>({ max: MAX_WINDOWS });

  constructor(options: SetOptions) {
    const { control, now, store, warmth, limits: { memoryBytes = 96 * 2 ** 20 } = {}, retention = {} } =
      options;
    this.#options = options;
    this.#warmth = warmth;
    this.#cache = new RequestCache({ maxBytes: memoryBytes });
    this.sessions = new GatewaySessions({
      ...{ control, warmth, now },
      resumed: (session, { uncounted: [made] }) => made && this.#countCompaction(session, made),
      maxBytes: this.#cache.sessionBytes,
      storing: store && {
        ...{ store, now },
        storesContent: retention.content ?? true,
        maxAgeMs: retention.maxAgeMs ?? (() => 30 * DAY_MS),
        maxBytes: retention.maxBytes ?? 2 ** 30,
        waitMs: retention.waitMs ?? 250,
        onFailure: (error, isFirst) => this.#storeFailed(error, isFirst),
      },
      makingOf: (name, client) => this.#makingOf(name, client),
      restored: ({ id, facts, held }) => this.#remember(id, facts, held),
      windowOf: ({ facts: { protocol: name, client = "" }, session }) => {
        const protocol = PROTOCOLS.find((one) => one.name === name);
        if (!protocol || !options.upstreams[name]) return undefined;
        return this.#windowOf(protocol, { client, model: session.state.model });
      },
    });
  }

  /** Returns the counter of tokens, made once. */
  async #counter(): Promise<CountTokens> {
    return this.#countTokens ??= await this.#options.countTokens();
  }

  /** Waits until all sessions are stored, for a while. Never rejects. */
  async close(): Promise<void> {
    this.#warmth?.close();
    await this.sessions.close();
  }

  #storeFailed(error: unknown, isFirst: boolean): void {
    const { telemetry, onError } = this.#options;
    telemetry.failedOpen("store");
    if (!isFirst) return;
    const what = "Requests continue without it; after a restart a session may be recognised as a new one.";
    onError?.(new Error(`Cannot store sessions: ${reasonOf(error)}. ${what}`, { cause: error }));
  }

  /** The id that a response has at the upstream, as it stands in a path. */
  async upstreamId(
    protocol: Protocol,
    id: string,
    { request, by }: Pick<Call, "request" | "by">,
  ): Promise<string> {
    const client = clientOf(protocol, request, by);
    const known = this.#cache.followed(client, id) ?? await this.#lookFor(id, protocol, client);
    return known ? encodeURIComponent(known.upstreamId) : id;
  }

  /** Looks for what is kept of a response, whatever session it belongs to. */
  async #lookFor(id: string, protocol: Protocol, client: string): Promise<Followed | undefined> {
    if (!this.#options.store) return undefined;
    const nothing = { scope: hashOf([client, null]), items: [], basis: { model: "" } };
    const countTokens = await this.#counter();
    const readers = this.#cache.readers(client);
    const prompts = this.#promptsOf(protocol, { client, countTokens });
    const looked = { client, ...nothing, countTokens, prompts };
    await this.sessions.look(looked, { follows: id, protocol, readers });
    return this.#cache.followed(client, id);
  }

  /** Finds the session of a request; nothing for a request that can't be planned. */
  async begin(protocol: Protocol, { request, bytes, counts, by }: Call): Promise<GatewayTurn | undefined> {
    const { recall: offers = true, now } = this.#options;
    const client = clientOf(protocol, request, by);
    const readers = this.#cache.readers(client);
    const isObserved = request.headers.get("x-tare")?.toLowerCase() === "observe";
    const upstream = upstreamOf(protocol, this.#options);
    const { baseURL } = upstream;
    const isOwn = isObserved || counts || baseURL.startsWith(MESSAGES_PROVIDER.baseURL);
    if (bytes.length > MAX_PLANNED_BYTES) {
      throw new RangeError(`it has more than ${MAX_PLANNED_BYTES} bytes`);
    }
    const read = (from: Call["bytes"]) => readWireBody(from, { protocol, lists: readers.lists });
    const sent = read(bytes);
    if (bytes.length > LARGE_BYTES) await letOthersIn();
    // What is known was within the limits when it came.
    const excess = jsonExcess(bytes.subarray(sent.known?.end ?? 0));
    if (excess !== undefined) throw new RangeError(excess);
    if (bytes.length > LARGE_BYTES) await letOthersIn();
    const still = isOwn ? undefined : protocol.withoutNonce?.(sent);
    const body = still ? read(still) : sent;
    const { key, name, follows, isStateful, isDetached, isAppended, ...hints } = protocol.readHints(
      body,
      request.headers,
    );
    if (isDetached) return undefined;
    const sized = hashOf([client, protocol.name, readField(body, "model")]);
    if (hints.asksForMillion) this.#millions.set(sized, true);
    else if (!counts) this.#millions.delete(sized);
    const countTokens = await this.#counter();
    const wire = await Session.inSlices(readingRequest(body, protocol, readers));
    const choosesTools = !hints.forbidsTools && !(hints.forcesTool && !hasAnswers(wire.items));
    const hasTools = (wire.tools ?? []).length > 0 && choosesTools;
    const ttlMs = protocol.cacheTtlMs?.(wire);
    const recognised: Recognised = {
      client,
      by,
      scope: hashOf([client, key ?? null]),
      isKeyed: key !== undefined,
      name: request.headers.get("x-tare-session") ?? name,
      protocol: protocol.name,
      agent: agentOf(request.headers),
      items: wire.items,
      hasTools,
      isObserved,
      basis: { model: wire.model, ...(ttlMs !== undefined && { ttlMs }) },
      countTokens,
      prompts: this.#promptsOf(protocol, { client, countTokens }),
    };
    const { sessions } = this;
    await sessions.look(recognised, { follows, protocol, readers });
    const followed = follows === undefined ? undefined : this.#cache.followed(client, follows);
    const found = sessions.held.get(followed?.sessionId ?? "");
    const purpose = counts ? "other" : hints.purpose;
    const oneShot = found ? undefined : oneShotOf(wire, {
      ...(purpose && { purpose }),
      hasTools,
      isNamed: recognised.name !== undefined,
      isKeyed: key !== undefined,
      about: () => sessions.about(recognised),
    });
    const { about, isFirst = false } = oneShot ?? {};
    if (oneShot && !about && (counts || !isFirst)) return undefined;
    const precedes = isFirst && !counts;
    const session = found ??
      (precedes ? sessions.precede(recognised) : about?.known ?? sessions.sessionOf(recognised));
    if (this.#warmth && protocol.pings && !counts && (!oneShot || precedes)) {
      if (!oneShot) this.#warmth.goesOn(session.id);
      // A subagent without tools begins with a request that may be none of its turns.
      if (recognised.isKeyed) this.#subAgents.asks(session);
    }
    session.asked({ atMs: now(), ...((!oneShot || precedes) && { model: wire.model }) });
    if (isObserved && !session.facts.control) session.leave();
    const prompts = isStateful
      ? undefined
      : precedes
      ? session.session.draft()
      : oneShot
      ? viewFor(oneShot, wire)
      : session.session;
    const isLeft = session.facts.control || session.facts.isReverted;
    const isHelped = !isLeft && !counts && (!oneShot || prompts !== undefined);
    const asked = isHelped
      ? session.steady(wire, { isTurn: !oneShot })
      : still && isLeft
      ? await Session.inSlices(readingRequest(sent, protocol, readers))
      : wire;
    const { searchesTools: searches = (model: string) => searchesTools({ baseURL, model }) } = upstream;
    const maySearch = protocol.toolSearch !== undefined && searches(wire.model);
    if (isHelped && !oneShot && hasTools && maySearch) {
      session.decideFunctions(() => this.#functionsInFront(wire, { client, session, countTokens }));
    }
    // What warms the cache for the first turn has to begin as that will.
    const decided = session.facts.functionsInFront ??
      (precedes && hasTools && maySearch
        ? this.#functionsInFront(wire, { client, session, countTokens })
        : undefined);
    const functionsInFront = decided ?? "all";
    const deferred = isLeft || !maySearch || functionsInFront === "all"
      ? undefined
      : deferTools(asked, (name) => functionsInFront.includes(name));
    // Nothing is evicted from a conversation that the upstream stores, and a recall's request would add its items again.
    const recall = offers && !isAppended && !session.facts.isReverted && (wire.tools ?? []).length > 0 &&
      wire.tools?.every(({ definition }) => definition.function.name !== RECALL_TOOL.function.name);
    return new GatewayTurn({
      client,
      session,
      request: deferred?.request ?? asked,
      deferred,
      recall: recall === true,
      follows: followed,
      prompts,
      ...(isHelped && { route: (key) => routeToCache({ baseURL, model: wire.model, key }) }),
      oneShot: oneShot?.purpose,
      precedes,
      ...(this.#options.telemetry.captureContent && { keepsText: true }),
      countTokens,
      held: this.#cache.prompts,
      readers,
      seen: (id, parts) => this.#cache.refer(client, id, parts),
      now,
    });
  }

  /** The functions in front of a session that begins, if others are deferred; nothing if all are. */
  #functionsInFront(
    wire: WireRequest,
    { client, session, countTokens }: Pick<Recognised, "countTokens"> & {
      readonly client: string;
      readonly session: GatewaySession;
    },
  ): readonly string[] | undefined {
    const { mechanisms: { schemas = true } = {}, alwaysFull } = this.#options.planning ?? {};
    if (!schemas) return undefined;
    const windowTokens = this.#windowOf(wire.protocol, { client, model: wire.model });
    const { profile } = session.session;
    return functionsInFront(wire, { profile, windowTokens, countTokens, alwaysFull });
  }

  /** Books the usage of a request whose reply did not reach its end; `written` is its length in tokens. */
  unfinished(turn: GatewayTurn, reply: Pick<WireReply, "usage">, written: number): void {
    const usage = reply.usage &&
      { ...reply.usage, outputTokens: Math.max(reply.usage.outputTokens, written) };
    const sent = turn.sent(usage ? { usage } : {}, written);
    this.#noteCall(turn, { ...sent, usage: { ...sent.usage, estimated: true } }, UNFINISHED);
  }

  #ratesOf({ request: { protocol, model }, session }: GatewayTurn): Rates {
    const { price = listPrice } = upstreamOf(protocol, this.#options);
    return { profile: session.session.profile, price: price(model) };
  }

  /**
   * The upstream has refused a request of a turn, in these words: they may tell how much its model reads. Whether they say
   * that the prompt is too long, and the turn can make a shorter one.
   */
  refused(turn: GatewayTurn, words: string): boolean {
    const { client, request: { protocol, model } } = turn;
    const tokens = readTooLong(words)?.windowTokens;
    if (tokens !== undefined) this.#windows.set(this.#sized(protocol, { client, model }).key, tokens);
    return turn.rejected(words);
  }

  /** Books the usage of a reply, and returns it; `written` is its length in tokens. */
  replied(turn: GatewayTurn, reply: WireReply, written: number): SentCall {
    const { session, oneShot } = turn;
    const sent = turn.sent(reply, written);
    const call = this.#noteCall(turn, sent, oneShot ?? "turn");
    if (!oneShot || !isAnswer(reply)) return sent;
    const isSaid = oneShot === "compaction";
    if (!isSaid && !(session.facts.hasTools && (reply.text ?? "").length >= SUMMARY_CHARS)) return sent;
    const { promptTokens, cachedTokens, outputTokens, tokenUnits, usd } = call;
    const money = usd !== null && { usd };
    const made = {
      atMs: this.#options.now(),
      promptTokens,
      cachedTokens,
      outputTokens,
      tokenUnits,
      ...money,
    };
    if (isSaid) this.#countCompaction(session, made);
    session.sumUp({ text: reply.text ?? "", isSaid, uncounted: isSaid ? [] : [made] });
    return sent;
  }

  /** A turn is over with this reply: remembers what the client doesn't know of. */
  ended(turn: GatewayTurn, { id: upstreamId, callsClient, recalls }: WireReply): void {
    turn.remember();
    const isTurn = turn.oneShot === undefined;
    if (isTurn) turn.session.replied({ callsClient });
    this.sessions.weigh(turn.session);
    const { writer: { id }, session, client } = turn;
    if (id === undefined || upstreamId === undefined) return;
    const owed = callsClient && recalls.length > 0 ? turn.lastAnswers : [];
    this.#cache.follow(client, id, { sessionId: session.id, upstreamId, owed });
    if (isTurn) session.answeredBy({ id, upstreamId, owed });
  }

  /** Whether the prompt of a turn may be kept warm once it is over: it has a session of its own that goes on. */
  keepsWarm({ session, oneShot, request: { protocol } }: GatewayTurn): boolean {
    const { facts: { control } } = session;
    return this.#warmth !== undefined && protocol.pings !== undefined && oneShot === undefined && !control &&
      !this.#subAgents.has(session);
  }

  /** A turn is over, and its client doesn't ask for anything: its prompt is kept warm as far as that pays. */
  waits(turn: GatewayTurn, call: EndedTurn & Pick<WireReply, "callsClient">): void {
    const { session, request: { model } } = turn;
    if (call.callsClient) this.#subAgents.calls(session);
    const rates = this.#ratesOf(turn);
    const pingable = pingableOf(turn, {
      ...call,
      isCurrent: async () => this.sessions.isCurrent(session) && await this.sessions.isNewest(session),
      booked: (entry) => {
        this.book(session, sumsOf.ping(entry, rates), { model });
        this.sessions.save(session);
      },
    }, this.#options);
    if (pingable) this.#warmth?.waits(pingable);
  }

  /** A session has come to more. */
  book(
    session: GatewaySession,
    more: Partial<Sums>,
    which?: { readonly model: string | undefined; readonly tool?: string },
  ): void {
    const atMs = this.#options.now();
    session.session.book(more, atMs, which);
    this.#options.keys?.paid(session.facts.by, more.usd ?? 0);
    this.#options.telemetry.booked(more, which?.model ?? session.session.state.model ?? "");
    this.sessions.book(session, more, atMs);
  }

  /** What belongs to a session beside it. */
  #remember(sessionId: string, { client, responses, lastMs }: SessionFacts, held?: StoredPrompt): void {
    if (client === undefined) return;
    if (held) this.#cache.prompts.restore(client, held, lastMs);
    for (const { id, ...followed } of responses) this.#cache.follow(client, id, { sessionId, ...followed });
  }

  #noteCall(
    turn: GatewayTurn,
    { usage, savedTokens, entry }: SentCall,
    purpose: string,
  ): CallReport {
    const { session, oneShot, request: { model } } = turn;
    const rates = this.#ratesOf(turn);
    const { upgrade } = entry?.warmth ?? {};
    if (upgrade) this.#warmth?.observe(keyOf(turn, this.#options), upgrade);
    const made = reportCall(usage, {
      number: 1 + sumsOf.days(session.session.state.days).calls,
      at: new Date(this.#options.now()).toISOString(),
      turn: oneShot === undefined ? session.facts.turns?.all ?? null : null,
      purpose,
      ledger: entry,
      rates,
      rewrites: purpose === "turn" ? session.session.state.unsent : [],
    });
    const pingCreditTokenUnits = entry?.warmth?.creditTokenUnits ?? 0;
    this.book(session, { ...sumsOf.call(made), pingCreditTokenUnits, savedTokens }, { model });
    session.session.note(made);
    return made;
  }

  #countCompaction(session: GatewaySession, made: Compaction): void {
    const { tokenUnits: compactionTokenUnits, usd: compactionUsd = 0 } = made;
    this.book(session, { compactions: 1, compactionTokenUnits, compactionUsd });
    session.compacted(made);
  }

  /** What the sessions of a protocol and client are made with. */
  async #makingOf(name: string, client = ""): Promise<Making | undefined> {
    const protocol = PROTOCOLS.find((one) => one.name === name);
    if (!protocol || !this.#options.upstreams[name]) return undefined;
    const countTokens = await this.#counter();
    const prompts = this.#promptsOf(protocol, { client, countTokens });
    return { protocol, countTokens, prompts, readers: this.#cache.readers(client) };
  }

  /** The context window of a model; nothing where it isn't known. */
  #windowOf(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const { windowTokens = listWindow } = upstreamOf(protocol, this.#options);
    if (typeof windowTokens === "number") return windowTokens;
    const { key, name } = this.#sized(protocol, { client, model });
    return this.#windows.get(key) ?? windowTokens(name);
  }

  /** The name of a model by the window that its client asks for, and what errors about that are remembered by. */
  #sized(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const key = hashOf([client, protocol.name, model]);
    if (!this.#millions.has(key) || /\[1m\]$/i.test(model)) return { key, name: model };
    return { key: `${key} 1m`, name: `${model}[1m]` };
  }

  /** Whether nobody has told that window. */
  #assumesWindow(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const { windowTokens, assumesWindow = () => true } = upstreamOf(protocol, this.#options);
    if (typeof windowTokens === "number") return false;
    const { key, name } = this.#sized(protocol, { client, model });
    return !this.#windows.has(key) && assumesWindow(name);
  }

  /** Makes what decides for a session, by what its first request asked for. */
  #promptsOf(
    protocol: Protocol,
    { client, countTokens }: { readonly client: string; readonly countTokens: CountTokens },
  ): Recognised["prompts"] {
    const { recall = true, planning = {} } = this.#options;
    const { mechanisms = {} } = planning;
    const { truncate = true } = mechanisms;
    const { profile: rules, baseURL } = upstreamOf(protocol, this.#options);
    return ({ archive, control, agent = "", basis: { model, ttlMs } }, stored) => {
      const profile = () => typeof rules === "function" ? rules(model) : rules;
      // What the client doesn't ask for is asked for by us, for as short as can be.
      const isMarked = ttlMs === 0 && !control && routeToCache({ baseURL, model, key: "" }).needsMarks;
      return policySession({
        ...planning,
        ...{ archive, countTokens, state: stored?.state },
        // What is known of an upstream may become known later.
        profile: () => ttlMs === undefined || isMarked ? profile() : profileForTtl(profile(), ttlMs),
        windowTokens: () => this.#windowOf(protocol, { client, model }),
        observe: control,
        mechanisms: { ...mechanisms, truncate: truncate && recall },
        advanced: {
          inSlices: Session.inSlices,
          assumesWindow: () => this.#assumesWindow(protocol, { client, model }),
          compaction: compactionOf(agent) ?? protocol.compaction,
          lookedAt: stored?.lookedAt,
        },
      });
    };
  }
}

/** Whether a reply is the model's last word: what calls tools is no summary, whatever it was asked for. */
function isAnswer({ callsClient, recalls }: WireReply): boolean {
  return !callsClient && recalls.length === 0;
}

/** Tells clients apart by their keys, which are kept nowhere, and by the name of ours. */
function clientOf({ name, auth }: Protocol, { headers }: Request, by: string | undefined): string {
  const keys = [
    ...auth.headers.map((header) => headers.get(header) ?? ""),
    ...(by === undefined ? [] : [by]),
  ];
  return `${name} ${hashOf(keys)}`;
}

/** Most characters of a program's name. */
const AGENT_CHARS = 60;

/** The name of the program that asks: the first product that its headers tell. */
function agentOf(headers: Headers): string | undefined {
  return headers.get("user-agent")?.trim().split(/[\s/]/, 1)[0]?.slice(0, AGENT_CHARS) || undefined;
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64");
}

/** A request that isn't a turn. */
interface OneShot {
  readonly purpose: NonNullable<ItemPart["purpose"]>;
  /** The session that it is about, if one is known. */
  readonly about: About<GatewaySession> | undefined;
  /** Whether no turn is known that it could belong to: it comes before the first, or is the first of a chat. Default: no. */
  readonly isFirst?: boolean;
}

/** Shortest instruction to sum a conversation up, in UTF-16 code units: a person's own words are shorter, or of a thing. */
const INSTRUCTION_CHARS = 300;

/** Shortest summary that nobody says is one, in UTF-16 code units: a title is shorter, and a user may well repeat it. */
const SUMMARY_CHARS = 80;

/** So near to the beginning or the end of what else a text holds it stands, in UTF-16 code units. */
const REACH_CHARS = 50_000;

const SUMMARY =
  "\\b(?:summar(?:y|ies|i[sz]\\w+)|recap|compact(?:ed|ing|ion)?|compress(?:e[sd]|ing|ion)?|hand-?off)\\b";
// Not `session-manager.ts` or `src/context`, which are names of something else.
const TALK = "(?<![\\w/-])(?:conversation|context|chat|session|history|transcript|discussion)(?![\\w/-])";

/** A summary and what it is of, in one sentence. */
const ASKS_FOR_SUMMARY = new RegExp(`${SUMMARY}[^.]{0,80}${TALK}|${TALK}[^.]{0,80}${SUMMARY}`, "i");

/**
 * Recognises requests for summaries, titles and the like; returns nothing for a turn. Such a request says so itself; or asks
 * for the shortest reply that there is; or its model can't choose a tool where the conversation has tools; or after a known
 * conversation its last words ask to sum it up, at the length at which programs ask. One without tools in which no model has
 * answered yet may be for a title, or be the first turn of a chat: the turn that goes on from it decides.
 */
function oneShotOf(
  { items, replyTokens = Infinity, protocol: { minReplyTokens } }: Pick<
    WireRequest,
    "items" | "replyTokens" | "protocol"
  >,
  { purpose, hasTools, isNamed, isKeyed, about: look }: {
    /** What the client says that it is for. Default: it doesn't say. */
    readonly purpose?: NonNullable<ItemPart["purpose"]>;
    /** Whether its model may choose among tools. */
    readonly hasTools: boolean;
    /** Whether the client names its session, or keeps its conversations apart. */
    readonly isNamed: boolean;
    readonly isKeyed: boolean;
    /** Looks for the session that it is about. */
    readonly about: () => About<GatewaySession> | undefined;
  },
): OneShot | undefined {
  const said = items.at(-1)?.parts.at(-1)?.purpose ?? purpose ??
    (replyTokens <= minReplyTokens ? "other" : undefined);
  const asks = said === undefined && asksForSummary(items);
  if (said === "turn" || (said === undefined && hasTools && !asks)) return undefined;
  const about = look();
  const isBegun = about?.known.isBegun ?? false;
  // What is no turn and about nothing begins no session.
  const isMeant = about !== undefined || isNamed || isKeyed;
  if (said !== undefined) return { purpose: said, about, isFirst: !isBegun && said === "other" && isMeant };
  const lacksTools = !hasTools && (about && isBegun ? about.known.facts.hasTools : hasResults(items));
  const isKnown = about && (about.shared > 0 || about.isCutOff);
  if (asks && (lacksTools || isKnown)) return { purpose: "compaction", about };
  if (lacksTools) return { purpose: "other", about };
  if (hasTools || hasAnswers(items)) return undefined;
  // A name holds one conversation, and a history that is known is none that begins.
  return { purpose: "other", about, isFirst: !isBegun || !isNamed && about?.shared === 0 };
}

/**
 * What decides what such a request sees of its session; nothing if their histories begin otherwise. From a summary the
 * client continues, so a request for one sees what left the prompt too; another one sees what the newest turn saw.
 */
function viewFor(
  { purpose, about }: OneShot,
  { items }: Pick<WireRequest, "items">,
): Pick<Session, "view" | "sent" | "rejected"> | undefined {
  if (!about || about.shared === 0) return undefined;
  const { known: session, shared } = about;
  const restores = purpose === "compaction" || namesSummary(instructionsOf(items));
  return session.session.glimpse(session.lengthOf(items.slice(0, shared)), { restores });
}

/** The text of the instructions with which a request begins. */
function instructionsOf(items: readonly WireItem[]): string {
  return textOf(items.slice(0, countInstructions(items)));
}

/** Whether people, or programs in their name, ask for a summary behind all that models and tools did. */
function asksForSummary(items: readonly WireItem[]): boolean {
  for (const { parts } of items.toReversed()) {
    for (const { message } of parts.toReversed()) {
      if (message.role !== "user") return false;
      const { content } = message;
      const texts = typeof content === "string" ? [content] : content.map((part) => contentText([part]));
      if (texts.some((text) => text.length >= INSTRUCTION_CHARS && namesSummary(text))) return true;
    }
  }
  return false;
}

function namesSummary(text: string): boolean {
  if (text.length <= 2 * REACH_CHARS) return ASKS_FOR_SUMMARY.test(text);
  return ASKS_FOR_SUMMARY.test(text.slice(0, REACH_CHARS)) || ASKS_FOR_SUMMARY.test(text.slice(-REACH_CHARS));
}

function hasResults(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "tool"));
}
