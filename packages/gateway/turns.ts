import { createHash } from "node:crypto";
import type { CountTokens, Usage } from "@tare/messages";
import { listPrice, profileForTtl, type Rates } from "@tare/planner";
import { promptSession } from "@tare/planner/policies";
import { reportCall, sumsOfCall } from "@tare/conversation/report";
import { RECALL_TOOL } from "@tare/prune";
import { jsonExcess, type Protocol, readBody, readingRequest, type WireReply } from "@tare/wire";
import { callTotals, GatewayLedger } from "./ledger.ts";
import { Memory } from "./memory.ts";
import type { GatewayOptions } from "./options.ts";
import { Keeper } from "./kept/keeper.ts";
import { oneShotOf, viewFor } from "./sessions/one_shot.ts";
import type { Recognised } from "./sessions/recognised.ts";
import type { Compaction, GatewaySession } from "./sessions/session.ts";
import { Sessions } from "./sessions/sessions.ts";
import { inSlices } from "./slices.ts";
import { type Followed, GatewayTurn, type SentCall } from "./turn.ts";
import { upstreamOf } from "./upstream.ts";

/** A request for the upstream, and its body. */
export interface Call {
  readonly request: Request;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Whether only its tokens shall be counted. Default: it is a model call. */
  readonly counts?: boolean;
}

/** So many compactions of a session are remembered. */
const MAX_COMPACTIONS = 100;

/** So many calls of a session are remembered. */
const MAX_CALLS = 2_000;

/** So many responses of a session may be followed after a restart. */
const MAX_RESPONSES = 8;

const DAY_MS = 24 * 60 * 60_000;

const NO_MECHANISMS = { context: false, prune: false, schemas: false, truncate: false };

/** Finds out which conversation each request belongs to, and takes note of what becomes of it. */
export class Turns {
  readonly ledger: GatewayLedger = new GatewayLedger();
  readonly #options: GatewayOptions;
  readonly #memory: Memory;
  readonly #sessions: Sessions;
  readonly #keeper: Keeper | undefined;

  /** No request has come yet. */
  constructor(options: GatewayOptions) {
    const { control, now, maxMemoryBytes = 512 * 2 ** 20, conversations: store } = options;
    this.#options = options;
    this.#memory = new Memory({ maxBytes: maxMemoryBytes });
    this.#sessions = new Sessions({
      control,
      begun: (session) => this.ledger.begin(session),
      resumed: (session, { uncounted: [made] }) => made && this.#countCompaction(session, made),
      maxBytes: this.#memory.sessionBytes,
      ...(now && { now }),
    });
    this.#keeper = store && new Keeper({
      store,
      sessions: this.#sessions,
      keepMs: options.keepMs ?? 30 * DAY_MS,
      keepBytes: options.keepBytes ?? 2 ** 30,
      waitMs: options.keepWaitMs ?? 250,
      restored: (session) => this.#remember(session),
      failed: () => options.telemetry?.failedOpen("store"),
      onError: options.onError ?? (() => {}),
      now: now ?? Date.now,
    });
  }

  /** Keeps a session: resolves once that is done, or after a short while; never rejects. Nothing if none are kept. */
  save(session: GatewaySession): Promise<void> | undefined {
    return this.#keeper?.save(session);
  }

  /** Waits until all is kept, for a while. Never rejects. */
  async close(): Promise<void> {
    await this.#keeper?.close();
  }

  /** All sessions that are known, the newest first. */
  get sessions(): readonly GatewaySession[] {
    return this.#sessions.list();
  }

  /** The session of this id, if it is known; it doesn't count as used. */
  session(id: string): GatewaySession | undefined {
    return this.#sessions.peek(id);
  }

  /** Forgets a session, and what is kept of it. @throws {StoreError} */
  async forget(session: GatewaySession): Promise<void> {
    this.#sessions.delete(session);
    await this.#keeper?.forget(session);
  }

  /** The id that a response has at the upstream, as it stands in a path. */
  async upstreamId(protocol: Protocol, id: string, request: Request): Promise<string> {
    const client = clientOf(protocol, request);
    const known = this.#memory.followed(client, id) ?? await this.#lookFor(id, protocol, client);
    return known ? encodeURIComponent(known.upstreamId) : id;
  }

  /** Looks for what is kept of a response, whatever session it belongs to. */
  async #lookFor(id: string, protocol: Protocol, client: string): Promise<Followed | undefined> {
    if (!this.#keeper) return undefined;
    const prompts = this.#promptsOf(protocol, await this.#options.countTokens());
    const nothing = { scope: hashOf([client, null]), items: [], basis: { model: "" } };
    const readers = this.#memory.readers(client);
    await this.#keeper.look({ client, ...nothing, prompts }, { follows: id, protocol, readers });
    return this.#memory.followed(client, id);
  }

  /** Finds the session of a request; nothing for a request that can't be planned. */
  async begin(protocol: Protocol, { request, bytes, counts }: Call): Promise<GatewayTurn | undefined> {
    const { recall: offers = true, now = Date.now } = this.#options;
    const client = clientOf(protocol, request);
    const readers = this.#memory.readers(client);
    const body = readBody(bytes, { protocol, lists: readers.lists });
    // What is known was within the limits when it came.
    const excess = jsonExcess(bytes.subarray(body.known?.end ?? 0));
    if (excess !== undefined) throw new RangeError(excess);
    const { key, name, follows, isStateful, isDetached, ...hints } = protocol.readHints(
      body,
      request.headers,
    );
    if (isDetached) return undefined;
    const countTokens = await this.#options.countTokens();
    const wire = await inSlices(readingRequest(body, protocol, readers));
    const sessions = this.#sessions;
    const hasTools = (wire.tools ?? []).length > 0 && !hints.forbidsTools;
    const ttlMs = protocol.cacheTtlMs?.(wire);
    const recognised: Recognised = {
      client,
      scope: hashOf([client, key ?? null]),
      isKeyed: key !== undefined,
      name: request.headers.get("x-tare-session") ?? name,
      protocol: protocol.name,
      items: wire.items,
      hasTools,
      basis: { model: wire.model, ...(ttlMs !== undefined && { ttlMs }) },
      prompts: this.#promptsOf(protocol, countTokens),
    };
    await this.#keeper?.look(recognised, { follows, protocol, readers });
    const followed = follows === undefined ? undefined : this.#memory.followed(client, follows);
    const found = sessions.get(followed?.sessionId ?? "");
    const purpose = counts ? "other" : hints.purpose;
    const oneShot = found
      ? undefined
      : oneShotOf(wire, { ...(purpose && { purpose }), hasTools, about: () => sessions.about(recognised) });
    if (oneShot && !oneShot.about) return undefined;
    const session = found ?? oneShot?.about?.session ?? sessions.find(recognised);
    session.lastMs = now();
    if (!oneShot) session.model = wire.model;
    const recall = offers && !session.control && !session.isReverted && (wire.tools ?? []).length > 0 &&
      wire.tools?.every(({ definition }) => definition?.function.name !== RECALL_TOOL.function.name);
    return new GatewayTurn({
      client,
      session,
      request: wire,
      recall: recall === true,
      follows: followed,
      prompts: isStateful ? undefined : oneShot ? viewFor(oneShot, wire) : session.prompts,
      oneShot: oneShot?.purpose,
      ...(this.#options.telemetry?.captureContent && { keepsText: true }),
      countTokens,
      readers,
      seen: (id, parts) => this.#memory.refer(client, id, parts),
      now,
    });
  }

  /** Books what a reply took, and gives that. */
  replied(turn: GatewayTurn, reply: WireReply): SentCall {
    const sent = turn.sent(reply);
    const { session, oneShot } = turn;
    const { usage } = sent;
    const { price = listPrice } = upstreamOf(turn.request.protocol, this.#options);
    const rates = { profile: session.prompts.profile, price: price(turn.request.model) };
    const call = usage && callTotals(usage, rates);
    if (call) {
      this.ledger.book(session, call);
      this.#noteCall(turn, { ...sent, usage }, rates);
    }
    if (!oneShot || !isAnswer(reply)) return sent;
    const isSaid = oneShot === "compaction";
    const { promptTokens = 0, cachedTokens = 0, outputTokens = 0, tokenUnits = 0, usd } = call ?? {};
    const atMs = this.#now();
    const money = usd !== undefined && { usd };
    const made = { atMs, promptTokens, cachedTokens, outputTokens, tokenUnits, ...money };
    if (isSaid) this.#countCompaction(session, made);
    this.#sessions.sumUp(session, { text: reply.text ?? "", isSaid, uncounted: isSaid ? [] : [made] });
    return sent;
  }

  /** A turn is over with this reply: remembers what the client doesn't know of. */
  ended(turn: GatewayTurn, { id: upstreamId, callsClient, recalls }: WireReply): void {
    turn.remember();
    this.#sessions.weigh(turn.session);
    const { writer: { id }, session, client } = turn;
    if (id === undefined || upstreamId === undefined) return;
    const owed = callsClient && recalls.length > 0 ? turn.lastAnswers : [];
    this.#memory.follow(client, id, { sessionId: session.id, upstreamId, owed });
    session.responses = [...session.responses, { id, upstreamId, owed }].slice(-MAX_RESPONSES);
  }

  /** What belongs to a session beside it. */
  #remember({ id: sessionId, client, responses }: Pick<GatewaySession, "id" | "client" | "responses">): void {
    if (client === undefined) return;
    for (const { id, ...followed } of responses) this.#memory.follow(client, id, { sessionId, ...followed });
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  #noteCall(
    { session, oneShot }: GatewayTurn,
    { usage, savedTokens, entry }: SentCall & { readonly usage: Usage },
    rates: Rates,
  ): void {
    const atMs = this.#now();
    const isTurn = oneShot === undefined;
    const made = reportCall(usage, {
      number: session.totals.calls,
      at: new Date(atMs).toISOString(),
      turn: null,
      purpose: oneShot ?? "turn",
      ledger: entry,
      rates,
      rewrites: isTurn ? session.unsent : [],
    });
    this.ledger.bookSums(session, { ...sumsOfCall(made), savedTokens }, atMs);
    session.calls = [...session.calls, made].slice(-MAX_CALLS);
    if (isTurn) session.unsent = [];
  }

  #countCompaction(session: GatewaySession, made: Compaction): void {
    const { tokenUnits: compactionTokenUnits, usd } = made;
    const money = usd !== undefined && { compactionUsd: usd };
    this.ledger.book(session, { compactions: 1, compactionTokenUnits, ...money });
    session.compactions = [...session.compactions, made].slice(-MAX_COMPACTIONS);
  }

  /** Makes what decides for a session, by what its first request asked for. */
  #promptsOf(protocol: Protocol, countTokens: CountTokens): Recognised["prompts"] {
    const { recall = true, policy, mechanisms = {}, truncateTokens, alwaysFull, triggers } = this.#options;
    const { truncate = true } = mechanisms;
    const { profile: rules, windowTokens } = upstreamOf(protocol, this.#options);
    return ({ archive, control, basis: { model, ttlMs } }, stored = {}) => {
      const profile = () => typeof rules === "function" ? rules(model) : rules;
      return promptSession({
        ...{ archive, countTokens, inSlices, policy, truncateTokens, alwaysFull, triggers, ...stored },
        // What is known of an upstream may become known later.
        profile: () => ttlMs === undefined ? profile() : profileForTtl(profile(), ttlMs),
        ...(windowTokens !== undefined && { windowTokens }),
        mechanisms: control ? NO_MECHANISMS : { ...mechanisms, truncate: truncate && recall },
      });
    };
  }
}

/** Whether a reply is the model's last word: what calls tools is no summary, whatever it was asked for. */
function isAnswer({ callsClient, recalls }: WireReply): boolean {
  return !callsClient && recalls.length === 0;
}

/** Tells clients apart by their keys, which are kept nowhere. */
function clientOf({ name, auth }: Protocol, { headers }: Request): string {
  const keys = auth.headers.map((header) => headers.get(header) ?? "");
  return `${name} ${hashOf(keys)}`;
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64");
}
