import { Warmth } from "@tare/session";
import type { Pingable } from "@tare/session/internal";
import { sumsOf } from "@tare/session/internal/report";
import { listPrice } from "@tare/planner";
import type { WireReply } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";
import type { GatewayOptions } from "./options.ts";
import type { GatewaySession } from "./sessions/session.ts";
import type { GatewayTurn } from "./turn.ts";
import { askUpstream, upstreamOf } from "./http.ts";

/** The last call of a turn, as it was answered. */
export interface EndedTurn {
  /** The client's request. */
  readonly request: Request;
  /** What was sent in its place. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** What came back, and how. */
  readonly response: Response;
  readonly reply: Uint8Array<ArrayBuffer>;
  readonly isStream: boolean;
}

/** Statuses by which a provider says that it doesn't take a request as it is. */
const REFUSALS: readonly number[] = [400, 422];

/** Headers that make a request the same as one before, whatever it asks. */
const ONE_REQUEST_HEADERS: readonly string[] = ["idempotency-key", "x-stainless-retry-count"];

/**
 * How a conversation is kept warm behind a turn, with the call that ended it; nothing if there is no way, or the provider says
 * that it would take no more requests.
 */
export function pingableOf(
  { session, client, request: wire }: Pick<GatewayTurn, "session" | "client" | "request">,
  { request, body, response, reply, isStream, ...told }: EndedTurn & Pick<WireReply, "callsClient"> & {
    /** Whether the session is still the one that is known here. */
    readonly isCurrent: () => Promise<boolean>;
    readonly booked: Pingable["booked"];
  },
  options: Pick<GatewayOptions, "fetch" | "upstreams">,
): Pingable | undefined {
  const { protocol, model } = wire;
  const { pings } = protocol;
  if (!pings || pings.mustReply(wire) || pings.leavesNothing(response.headers)) return undefined;
  const upstream = upstreamOf(protocol, options);
  const answer = pings.readAnswerBlocks(body, reply, isStream);
  // The client's connection and its body are let go.
  const { url, method } = request;
  const headers = new Headers(request.headers);
  for (const name of ONE_REQUEST_HEADERS) headers.delete(name);
  const asked = new Request(url, { method, headers });
  const { price = listPrice } = upstream;
  const isSubscribed = upstream.apiKey === undefined && pings.isSubscription(headers);
  let isOver = false;
  return {
    session: session.session,
    key: keyOf({ client, request: wire }, options),
    idle: {
      pending: told.callsClient ? "tool" : "person",
      hasCommitted: Warmth.hasCommitted(
        wire.items.flatMap(({ parts }) => parts.map(({ message }) => message)),
      ),
      // What can't be gone on from isn't.
      answerBlocks: answer?.length ?? Infinity,
    },
    consent: isSubscribed ? "asked" : "budget",
    bytes: body.length + (answer ?? []).reduce((sum, block) => sum + 2 * block.length, 0),
    price: () => price(model),
    async ping(type, signal) {
      if (isOver || !await told.isCurrent()) return undefined;
      const call = {
        ...{ upstream, request: asked, auth: protocol.auth, signal },
        body: pings.write(body, type === "upgrade" ? answer : undefined),
      };
      const response = await askUpstream(protocol.path, call, options);
      if (!response.ok) {
        await response.body?.cancel();
        return REFUSALS.includes(response.status) ? "refused" : undefined;
      }
      isOver = pings.leavesNothing(response.headers);
      return pings.readUsage(new Uint8Array(await response.arrayBuffer()));
    },
    booked: told.booked,
  };
}

/** So many conversations and clients are remembered. */
const MAX_KNOWN = 1_000;

type Asking = Pick<GatewaySession, "id" | "facts" | "session">;

/**
 * Conversations that work for another one of the same client, which waits for its tools when they begin: they end with their
 * answer, and nobody comes back to them.
 */
export class SubAgents {
  /** By client and its key: the conversation that waits for its tools. */
  readonly #waiting = new LRUCache<string, string>({ max: MAX_KNOWN });
  readonly #helpers = new LRUCache<string, true>({ max: MAX_KNOWN });

  /** A conversation of a client that keeps its conversations apart asks for something. */
  asks({ id, facts: { scope }, session }: Asking): void {
    const waiting = this.#waiting.get(scope);
    if (waiting === id) this.#waiting.delete(scope);
    else if (waiting !== undefined && sumsOf.days(session.state.days).calls === 0) {
      this.#helpers.set(id, true);
    }
  }

  /** A conversation waits for its client's tools. */
  calls({ id, facts: { scope } }: Asking): void {
    this.#waiting.set(scope, id);
  }

  /** Whether a conversation works for another one. */
  has({ id }: Pick<Asking, "id">): boolean {
    return this.#helpers.has(id);
  }
}

/** What upgrades have shown is remembered by this: the client's name holds a hash of its key. */
export function keyOf(
  { client, request: { protocol, model } }: Pick<GatewayTurn, "client" | "request">,
  options: Pick<GatewayOptions, "upstreams">,
): string {
  return `${upstreamOf(protocol, options).baseURL} ${client} ${model}`;
}
