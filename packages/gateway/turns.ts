import type { CacheKeepAlive } from "@tare/session";
import { Session } from "@tare/session/internal";
import {
  type CallReport,
  reportCall,
  UNFINISHED,
  type UsageTotals,
  usageTotals,
} from "@tare/session/internal/report";
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
import { budgetUsd, type Rates, type StoredPrompt } from "@tare/planner/internal/parts";
import { policySession } from "@tare/planner/policies";
import { RECALL_TOOL } from "@tare/prune";
import { CALL_TOOL, FIND_TOOLS } from "@tare/schemas/internal";
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
import { functionsInFront, pairOf } from "./deferral.ts";
import { ToolUses } from "./tool_uses.ts";
import { type EndedTurn, keepAliveTarget, keyOf, SubAgents } from "./keep_alive.ts";
import { type Followed, RequestCache } from "./request_cache.ts";
import type { SetOptions } from "./options.ts";
import { countInstructions, hasAnswers, textOf } from "./sessions/history.ts";
import type { Compaction, GatewaySession, Making, Recognized, SessionFacts } from "./sessions/session.ts";
import { GatewaySessions } from "./sessions/sessions.ts";
import { GatewayTurn, type SentCall } from "./turn.ts";
import { upstreamOf } from "./http.ts";

export interface Call {
  readonly request: Request;
  /** Aborted if the client disconnects before the answer begins. Default: none. */
  readonly signal?: AbortSignal | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly by: string | undefined;
  /** Whether it only counts tokens. Default: it is a model call. */
  readonly counts?: boolean;
}

const DAY_MS = 24 * 60 * 60_000;

/** Largest body that is planned, in bytes: beyond any model's window. A larger one is forwarded unchanged. */
const MAX_PLANNED_BYTES = 16 * 2 ** 20;

/** Bytes of a body from which its passes yield to other requests. */
const LARGE_BYTES = 2 ** 20;

function yieldToOthers(): Promise<void> {
  return new Promise((resolve) => setTimer(resolve));
}

const MAX_WINDOWS = 1_000;

/** Assigns requests to sessions and records their results. */
export class Turns {
  readonly sessions: GatewaySessions;
  readonly #options: SetOptions;
  #countTokens: CountTokens | undefined;
  readonly #cache: RequestCache;
  readonly #keepAlive: CacheKeepAlive | undefined;
  readonly #subAgents = new SubAgents();
  readonly #toolUses: ToolUses;
  /** Windows that errors reported, by client: an error may quote the client's content. */
  readonly #windows = new LRUCache<string, number>({ max: MAX_WINDOWS });
  /** Clients with a model whose newest request enables a window of a million tokens. */
  readonly #millions = new LRUCache<string, true>({ max: MAX_WINDOWS });

  constructor(options: SetOptions) {
    const { holdout, now, store, keepAlive, limits: { memoryBytes = 96 * 2 ** 20 } = {}, retention = {} } =
      options;
    this.#options = options;
    this.#keepAlive = keepAlive;
    this.#cache = new RequestCache({ maxBytes: memoryBytes });
    const { content: storesContent = true, maxAgeMs = () => 30 * DAY_MS, waitMs = 250 } = retention;
    this.#toolUses = new ToolUses({
      store: storesContent ? store : undefined,
      ...{ maxAgeMs, now, waitMs },
      onFailure: (error) => this.#storeFailed(error, false),
    });
    this.sessions = new GatewaySessions({
      ...{ holdout, keepAlive, now },
      resumed: (session, { uncounted: [made] }) => made && this.#countCompaction(session, made),
      maxBytes: this.#cache.sessionBytes,
      storing: store && {
        ...{ store, now },
        ...{ storesContent, maxAgeMs, waitMs },
        maxBytes: retention.maxBytes ?? 2 ** 30,
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

  async #counter(): Promise<CountTokens> {
    return this.#countTokens ??= await this.#options.countTokens();
  }

  async close(): Promise<void> {
    this.#keepAlive?.close();
    await Promise.all([this.sessions.close(), this.#toolUses.close()]);
  }

  #storeFailed(error: unknown, isFirst: boolean): void {
    const { telemetry, onError } = this.#options;
    telemetry.failedOpen("store");
    if (!isFirst) return;
    const what = "Requests continue without it; after a restart a session may be recognized as a new one.";
    onError?.(new Error(`Cannot store sessions: ${reasonOf(error)}. ${what}`, { cause: error }));
  }

  /** Returns the upstream's id of a response, encoded for a path. */
  async upstreamId(
    protocol: Protocol,
    id: string,
    { request, by }: Pick<Call, "request" | "by">,
  ): Promise<string> {
    const client = clientOf(protocol, request, by);
    const known = this.#cache.followed(client, id) ?? await this.#find(id, protocol, client);
    return known ? encodeURIComponent(known.upstreamId) : id;
  }

  /** Loads the session of a response and returns the response. */
  async #find(id: string, protocol: Protocol, client: string): Promise<Followed | undefined> {
    if (!this.#options.store) return undefined;
    const nothing = { scope: hashOf([client, null]), items: [], basis: { model: "" } };
    const countTokens = await this.#counter();
    const readers = this.#cache.readers(client);
    const prompts = this.#promptsOf(protocol, { client, countTokens });
    const inspected = { client, ...nothing, countTokens, prompts };
    await this.sessions.inspect(inspected, { follows: id, protocol, readers });
    return this.#cache.followed(client, id);
  }

  /** Returns the turn of a request; `undefined` if it can't be planned. */
  async begin(protocol: Protocol, { request, bytes, counts, by }: Call): Promise<GatewayTurn | undefined> {
    const { recall: offers = true, now } = this.#options;
    const client = clientOf(protocol, request, by);
    const readers = this.#cache.readers(client);
    const isDryRun = request.headers.get("x-tare")?.toLowerCase() === "dry-run";
    const upstream = upstreamOf(protocol, this.#options);
    const { baseURL } = upstream;
    const isOwn = isDryRun || counts || baseURL.startsWith(MESSAGES_PROVIDER.baseURL);
    if (bytes.length > MAX_PLANNED_BYTES) {
      throw new RangeError(`it has more than ${MAX_PLANNED_BYTES} bytes`);
    }
    const read = (from: Call["bytes"]) => readWireBody(from, { protocol, lists: readers.lists });
    const sent = read(bytes);
    if (bytes.length > LARGE_BYTES) await yieldToOthers();
    const excess = jsonExcess(bytes.subarray(sent.known?.end ?? 0));
    if (excess !== undefined) throw new RangeError(excess);
    if (bytes.length > LARGE_BYTES) await yieldToOthers();
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
    const recognized: Recognized = {
      client,
      by,
      scope: hashOf([client, key ?? null]),
      isKeyed: key !== undefined,
      name: request.headers.get("x-tare-session") ?? name,
      protocol: protocol.name,
      agent: agentOf(request.headers),
      items: wire.items,
      hasTools,
      isDryRun,
      basis: { model: wire.model, ...(ttlMs !== undefined && { ttlMs }) },
      countTokens,
      prompts: this.#promptsOf(protocol, { client, countTokens }),
    };
    const { sessions } = this;
    await sessions.inspect(recognized, { follows, protocol, readers });
    const followed = follows === undefined ? undefined : this.#cache.followed(client, follows);
    const found = sessions.held.get(followed?.sessionId ?? "");
    const purpose = counts ? "other" : hints.purpose;
    const oneShot = found ? undefined : oneShotOf(wire, {
      ...(purpose && { purpose }),
      hasTools,
      isNamed: recognized.name !== undefined,
      isKeyed: key !== undefined,
      about: () => sessions.about(recognized),
    });
    const { about, isFirst = false } = oneShot ?? {};
    if (oneShot && !about && (counts || !isFirst)) return undefined;
    const precedes = isFirst && !counts;
    const session = found ??
      (precedes ? sessions.precede(recognized) : about?.known ?? sessions.sessionOf(recognized));
    if (this.#keepAlive && protocol.keepAlive && !counts && (!oneShot || precedes)) {
      if (!oneShot) this.#keepAlive.cancelNext(session.id);
      // A subagent without tools begins with a request that may be no turn.
      if (recognized.isKeyed) this.#subAgents.recordRequest(session);
    }
    session.addRequest({ atMs: now(), ...((!oneShot || precedes) && { model: wire.model }) });
    if (isDryRun && !session.facts.holdout) session.revert();
    const prompts = isStateful
      ? undefined
      : precedes
      ? session.session.draft()
      : oneShot
      ? viewFor(oneShot, wire)
      : session.session;
    const isLeft = session.facts.holdout || session.facts.isReverted;
    const isHelped = !isLeft && !counts && (!oneShot || prompts !== undefined);
    const requested = isHelped
      ? session.steady(wire, { isTurn: !oneShot })
      : still && isLeft
      ? await Session.inSlices(readingRequest(sent, protocol, readers))
      : wire;
    const { defersTools = (model: string) => !protocol.toolSearch || searchesTools({ baseURL, model }) } =
      upstream;
    const isDeferrable = protocol.toolSearch !== undefined || protocol.forbidsToolPair !== undefined;
    const names = (wire.tools ?? []).map(({ definition }) => definition.function.name);
    const hasOwnPair = [FIND_TOOLS, CALL_TOOL].some((tool) => names.includes(tool.function.name));
    const mayDefer = isDeferrable && !isAppended && !hasOwnPair && defersTools(wire.model);
    const isTurn = isHelped && !oneShot;
    let decided = session.facts.functionsInFront;
    if (decided === undefined && (isTurn || precedes) && hasTools && mayDefer) {
      const decide = (usual: readonly string[]) =>
        session.facts.isAnswered
          ? undefined
          : this.#functionsInFront(wire, { client, session, countTokens, usual });
      const key = hashOf([client, names.toSorted()]);
      const usual = decide([]) && await this.#toolUses.inFront(key);
      const isNew = session.facts.functionsInFront === undefined;
      // A request that warms the cache must begin as the first turn will.
      decided = session.facts.functionsInFront ?? (usual && decide(usual)) ?? "all";
      if (isTurn && isNew) {
        session.decideFunctions(decided, key);
        if (decided !== "all") this.#toolUses.began(key);
      }
    }
    const called = isTurn ? session.noteCalls(wire) : [];
    if (called.length > 0) this.#toolUses.called(session.facts.toolUse!.key, called);
    const inFront = Array.isArray(decided) && !isLeft && mayDefer ? decided : undefined;
    const deferred = inFront &&
      deferTools(requested, (name) => inFront.includes(name), (tools) => pairOf(tools, countTokens));
    const hasPair = !protocol.toolSearch && mayDefer && (deferred !== undefined || decided === "restored");
    // Nothing is evicted from a conversation that the upstream stores, and a recall's request would add its items
    // again.
    const recall = offers && !isAppended && !session.facts.isReverted && (wire.tools ?? []).length > 0 &&
      wire.tools?.every(({ definition }) => definition.function.name !== RECALL_TOOL.function.name);
    return new GatewayTurn({
      client,
      session,
      request: requested,
      deferred,
      hasPair,
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

  /** Returns the functions that are not deferred in a new session; `undefined` if none is deferred. */
  #functionsInFront(
    wire: WireRequest,
    { client, session, countTokens, usual }: Pick<Recognized, "countTokens"> & {
      readonly client: string;
      readonly session: GatewaySession;
      readonly usual: readonly string[];
    },
  ): readonly string[] | undefined {
    const { mechanisms: { schemas = true } = {}, alwaysFull } = this.#options.planning ?? {};
    if (!schemas) return undefined;
    const windowTokens = this.#windowOf(wire.protocol, { client, model: wire.model });
    const { profile } = session.session;
    return functionsInFront(wire, { profile, windowTokens, countTokens, alwaysFull, usual });
  }

  /** Records the usage of a call without a complete reply; `written` is the reply's length in tokens. */
  unfinished(turn: GatewayTurn, reply: Pick<WireReply, "usage">, written: number): void {
    const usage = reply.usage &&
      { ...reply.usage, outputTokens: Math.max(reply.usage.outputTokens, written) };
    const sent = turn.sent(usage ? { usage } : {}, written);
    this.#noteCall(turn, { ...sent, usage: { ...sent.usage, estimated: true } }, UNFINISHED);
  }

  #ratesOf({ request: { protocol, model }, session }: GatewayTurn): Rates {
    const { price = listPrice } = upstreamOf(protocol, this.#options);
    return { profile: session.session.profile, price: price(model), priceOf: price };
  }

  /**
   * Notes that the upstream rejected a call with this message, which may report the model's window. Returns whether the
   * prompt is too long and can be shortened.
   */
  refused(turn: GatewayTurn, words: string): boolean {
    const { client, request: { protocol, model } } = turn;
    const tokens = readTooLong(words)?.windowTokens;
    if (tokens !== undefined) this.#windows.set(this.#sized(protocol, { client, model }).key, tokens);
    return turn.rejected(words);
  }

  /** Records the usage of a reply and returns it; `written` is the reply's length in tokens. */
  replied(turn: GatewayTurn, reply: WireReply, written: number): SentCall {
    const { session, oneShot } = turn;
    const sent = turn.sent(reply, written);
    const call = this.#noteCall(turn, sent, oneShot ?? "turn");
    if (!oneShot || !isAnswer(reply)) return sent;
    const isRequested = oneShot === "compaction";
    if (!isRequested && !(session.facts.hasTools && (reply.text ?? "").length >= SUMMARY_CHARS)) return sent;
    const { promptTokens, cachedTokens, outputTokens, costUnits, usd } = call;
    const money = usd !== null && { usd };
    const made = {
      atMs: this.#options.now(),
      promptTokens,
      cachedTokens,
      outputTokens,
      costUnits,
      ...money,
    };
    if (isRequested) this.#countCompaction(session, made);
    session.addSummary({ text: reply.text ?? "", isRequested, uncounted: isRequested ? [] : [made] });
    return sent;
  }

  /** Ends a turn with this reply: stores what is hidden from the client. */
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

  /** Whether keep-alive may follow a turn: not for one-shot requests, the holdout and subagents. */
  allowsKeepAlive({ session, oneShot, request: { protocol } }: GatewayTurn): boolean {
    const { facts: { holdout } } = session;
    return this.#keepAlive !== undefined && protocol.keepAlive !== undefined && oneShot === undefined &&
      !holdout &&
      !this.#subAgents.has(session);
  }

  /** Starts cache keep-alive after a turn, as far as it pays. */
  waits(turn: GatewayTurn, call: EndedTurn & Pick<WireReply, "callsClient">): void {
    const { session, request: { model } } = turn;
    if (call.callsClient) this.#subAgents.calls(session);
    const rates = this.#ratesOf(turn);
    const target = keepAliveTarget(turn, {
      ...call,
      isCurrent: async () => this.sessions.isCurrent(session) && await this.sessions.isNewest(session),
      onRecorded: (entry) => {
        this.recordTotals(session, usageTotals.keepAlive(entry, rates), { model });
        this.sessions.save(session);
      },
    }, this.#options);
    if (target) this.#keepAlive?.waits(target);
  }

  recordTotals(
    session: GatewaySession,
    more: Partial<UsageTotals>,
    which?: { readonly model: string | undefined; readonly tool?: string },
  ): void {
    const atMs = this.#options.now();
    session.session.recordTotals(more, atMs, which);
    this.#options.keys?.paid(session.facts.by, more.usd ?? 0);
    this.#options.telemetry.recordCosts(more, which?.model ?? session.session.state.model ?? "");
    this.sessions.addToEvicted(session, more, atMs);
  }

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
    const { upgrade } = entry?.keepAlive ?? {};
    if (upgrade) this.#keepAlive?.observe(keyOf(turn, this.#options), upgrade);
    const made = reportCall(usage, {
      number: 1 + usageTotals.days(session.session.state.days).calls,
      at: new Date(this.#options.now()).toISOString(),
      turn: oneShot === undefined ? session.facts.turns?.all ?? null : null,
      purpose,
      ledger: entry,
      rates,
      rewrites: purpose === "turn" ? session.session.state.unsent : [],
    });
    const keepAliveCreditCostUnits = entry?.keepAlive?.creditCostUnits ?? 0;
    this.recordTotals(session, { ...usageTotals.call(made), keepAliveCreditCostUnits, savedTokens }, {
      model,
    });
    if (made.usd === null) this.#options.keys?.paid(session.facts.by, budgetUsd(usage, rates));
    session.session.note(made);
    return made;
  }

  #countCompaction(session: GatewaySession, made: Compaction): void {
    const { costUnits: compactionCostUnits, usd: compactionUsd = 0 } = made;
    this.recordTotals(session, { compactions: 1, compactionCostUnits, compactionUsd });
    session.compacted(made);
  }

  async #makingOf(name: string, client = ""): Promise<Making | undefined> {
    const protocol = PROTOCOLS.find((one) => one.name === name);
    if (!protocol || !this.#options.upstreams[name]) return undefined;
    const countTokens = await this.#counter();
    const prompts = this.#promptsOf(protocol, { client, countTokens });
    return { protocol, countTokens, prompts, readers: this.#cache.readers(client) };
  }

  #windowOf(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const { windowTokens = listWindow } = upstreamOf(protocol, this.#options);
    if (typeof windowTokens === "number") return windowTokens;
    const { key, name } = this.#sized(protocol, { client, model });
    return this.#windows.get(key) ?? windowTokens(name);
  }

  /**
   * Returns a model's name with the window that its client requests, and the key of windows that errors reported for
   * it.
   */
  #sized(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const key = hashOf([client, protocol.name, model]);
    if (!this.#millions.has(key) || /\[1m\]$/i.test(model)) return { key, name: model };
    return { key: `${key} 1m`, name: `${model}[1m]` };
  }

  #assumesWindow(protocol: Protocol, { client, model }: { readonly client: string; readonly model: string }) {
    const { windowTokens, assumesWindow = () => true } = upstreamOf(protocol, this.#options);
    if (typeof windowTokens === "number") return false;
    const { key, name } = this.#sized(protocol, { client, model });
    return !this.#windows.has(key) && assumesWindow(name);
  }

  /** Returns a function that makes the planner of a session from its first request. */
  #promptsOf(
    protocol: Protocol,
    { client, countTokens }: { readonly client: string; readonly countTokens: CountTokens },
  ): Recognized["prompts"] {
    const { recall = true, planning = {} } = this.#options;
    const { mechanisms = {} } = planning;
    const { truncate = true } = mechanisms;
    const { profile: rules, baseURL } = upstreamOf(protocol, this.#options);
    return ({ archive, holdout, agent = "", basis: { model, ttlMs } }, stored) => {
      const profile = () => typeof rules === "function" ? rules(model) : rules;
      // If the client sets no breakpoints, Tare does, with the shortest lifetime.
      const isMarked = ttlMs === 0 && !holdout && routeToCache({ baseURL, model, key: "" }).needsBreakpoints;
      return policySession({
        ...planning,
        // Its description lists the deferred tools.
        alwaysFull: [...planning.alwaysFull ?? [], FIND_TOOLS.function.name],
        ...{ archive, countTokens, state: stored?.state },
        // The upstream's profile may become known later.
        profile: () => ttlMs === undefined || isMarked ? profile() : profileForTtl(profile(), ttlMs),
        windowTokens: () => this.#windowOf(protocol, { client, model }),
        dryRun: holdout,
        mechanisms: { ...mechanisms, truncate: truncate && recall },
        advanced: {
          inSlices: Session.inSlices,
          assumesWindow: () => this.#assumesWindow(protocol, { client, model }),
          compaction: compactionOf(agent),
          inspected: stored?.inspected,
        },
      });
    };
  }
}

/** Whether a reply is final: one that calls tools is no summary. */
function isAnswer({ callsClient, recalls }: WireReply): boolean {
  return !callsClient && recalls.length === 0;
}

/** Identifies clients by a hash of their own key and the name of the server's. */
function clientOf({ name, auth }: Protocol, { headers }: Request, by: string | undefined): string {
  const keys = [
    ...auth.headers.map((header) => headers.get(header) ?? ""),
    ...(by === undefined ? [] : [by]),
  ];
  return `${name} ${hashOf(keys)}`;
}

const AGENT_CHARS = 60;

/** Returns the client's program: the first product of its user agent. */
function agentOf(headers: Headers): string | undefined {
  return headers.get("user-agent")?.trim().split(/[\s/]/, 1)[0]?.slice(0, AGENT_CHARS) || undefined;
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64");
}

interface OneShot {
  readonly purpose: NonNullable<ItemPart["purpose"]>;
  readonly about: About<GatewaySession> | undefined;
  /** Whether it precedes all known turns, or is the first turn of a chat. Default: false. */
  readonly isFirst?: boolean;
}

/**
 * Shortest instruction to summarize a conversation, in UTF-16 code units: a user's own are shorter, or about something
 * else.
 */
const INSTRUCTION_CHARS = 300;

/** Shortest unmarked summary, in UTF-16 code units: titles are shorter, and users may repeat them. */
const SUMMARY_CHARS = 80;

/** Length of a text's beginning and end that is searched for an instruction, in UTF-16 code units. */
const REACH_CHARS = 50_000;

const SUMMARY =
  "\\b(?:summar(?:y|ies|i[sz]\\w+)|recap|compact(?:ed|ing|ion)?|compress(?:e[sd]|ing|ion)?|hand-?off)\\b";
// Excludes names such as `session-manager.ts` and `src/context`.
const TALK = "(?<![\\w/-])(?:conversation|context|chat|session|history|transcript|discussion)(?![\\w/-])";

const ASKS_FOR_SUMMARY = new RegExp(`${SUMMARY}[^.]{0,80}${TALK}|${TALK}[^.]{0,80}${SUMMARY}`, "i");

/**
 * Recognizes requests for summaries, titles and the like; returns `undefined` for a turn. Such a request is marked as
 * one; or allows only the shortest reply; or has no tools although the conversation does; or its last message, after a
 * known conversation, is a summary instruction of a program's length. A first request without tools may be for a title,
 * or be the first turn of a chat: a later turn that continues it decides.
 */
function oneShotOf(
  { items, replyTokens = Infinity, protocol: { minReplyTokens } }: Pick<
    WireRequest,
    "items" | "replyTokens" | "protocol"
  >,
  { purpose, hasTools, isNamed, isKeyed, about: look }: {
    /** The purpose that the client reports. Default: none. */
    readonly purpose?: NonNullable<ItemPart["purpose"]>;
    readonly hasTools: boolean;
    readonly isNamed: boolean;
    readonly isKeyed: boolean;
    readonly about: () => About<GatewaySession> | undefined;
  },
): OneShot | undefined {
  const declaredPurpose = items.at(-1)?.parts.at(-1)?.purpose ?? purpose ??
    (replyTokens <= minReplyTokens ? "other" : undefined);
  const asks = declaredPurpose === undefined && asksForSummary(items);
  if (declaredPurpose === "turn" || (declaredPurpose === undefined && hasTools && !asks)) return undefined;
  const about = look();
  const isBegun = about?.known.isBegun ?? false;
  // A request that is about no session begins none.
  const isMeant = about !== undefined || isNamed || isKeyed;
  if (declaredPurpose !== undefined) {
    return { purpose: declaredPurpose, about, isFirst: !isBegun && declaredPurpose === "other" && isMeant };
  }
  const lacksTools = !hasTools && (about && isBegun ? about.known.facts.hasTools : hasResults(items));
  const isKnown = about && (about.shared > 0 || about.isCutOff);
  if (asks && (lacksTools || isKnown)) return { purpose: "compaction", about };
  if (lacksTools) return { purpose: "other", about };
  if (hasTools || hasAnswers(items)) return undefined;
  // A name has one conversation, and a known history is no beginning.
  return { purpose: "other", about, isFirst: !isBegun || !isNamed && about?.shared === 0 };
}

/**
 * Returns the planner of such a request's prompt; `undefined` if it shares no history with its session. A request for a
 * summary gets evicted content too, since the client continues from the summary; others get the newest turn's prompt.
 */
function viewFor(
  { purpose, about }: OneShot,
  { items }: Pick<WireRequest, "items">,
): Pick<Session, "view" | "sent" | "rejected"> | undefined {
  if (!about || about.shared === 0) return undefined;
  const { known: session, shared } = about;
  const restores = purpose === "compaction" || namesSummary(instructionsOf(items));
  return session.session.planOneShot(session.lengthOf(items.slice(0, shared)), { restores });
}

function instructionsOf(items: readonly WireItem[]): string {
  return textOf(items.slice(0, countInstructions(items)));
}

/** Whether messages of the user at the end of a history request a summary. */
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
