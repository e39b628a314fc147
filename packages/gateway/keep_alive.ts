import { CacheKeepAlive } from "@tare/session";
import type { KeepAliveTarget } from "@tare/session/internal";
import { usageTotals } from "@tare/session/internal/report";
import { listPrice } from "@tare/planner";
import type { WireReply } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";
import type { GatewayOptions } from "./options.ts";
import type { GatewaySession } from "./sessions/session.ts";
import type { GatewayTurn } from "./turn.ts";
import { askUpstream, upstreamOf } from "./http.ts";

/** The last call of a turn, with its reply. */
export interface EndedTurn {
  readonly request: Request;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly response: Response;
  readonly reply: Uint8Array<ArrayBuffer>;
  readonly isStream: boolean;
}

/** Statuses of rejected content. */
const REFUSALS: readonly number[] = [400, 422];

/** Headers that mark a request as a repetition of an earlier one. */
const ONE_REQUEST_HEADERS: readonly string[] = ["idempotency-key", "x-stainless-retry-count"];

/**
 * Returns how a conversation's cache is kept alive after a turn, from the call that ended it; `undefined` if its
 * protocol can't, or the provider's quota is exhausted.
 */
export function keepAliveTarget(
  { session, client, request: wire }: Pick<GatewayTurn, "session" | "client" | "request">,
  { request, body, response, reply, isStream, ...rest }: EndedTurn & Pick<WireReply, "callsClient"> & {
    /** Whether the session in memory is still the newest. */
    readonly isCurrent: () => Promise<boolean>;
    readonly onRecorded: KeepAliveTarget["onRecorded"];
  },
  options: Pick<GatewayOptions, "fetch" | "upstreams">,
): KeepAliveTarget | undefined {
  const { protocol, model } = wire;
  const { keepAlive } = protocol;
  if (!keepAlive || keepAlive.mustReply(wire) || keepAlive.isLimitExhausted(response.headers)) {
    return undefined;
  }
  const upstream = upstreamOf(protocol, options);
  const answer = keepAlive.readAnswerBlocks(body, reply, isStream);
  // Releases the client's connection and body.
  const { url, method } = request;
  const headers = new Headers(request.headers);
  for (const name of ONE_REQUEST_HEADERS) headers.delete(name);
  const incoming = new Request(url, { method, headers });
  const { price = listPrice } = upstream;
  const isSubscribed = upstream.apiKey === undefined && keepAlive.isSubscription(headers);
  let isOver = false;
  return {
    session: session.session,
    key: keyOf({ client, request: wire }, options),
    idle: {
      pending: rest.callsClient ? "tool" : "user",
      hasCommitted: CacheKeepAlive.hasCommitted(
        wire.items.flatMap(({ parts }) => parts.map(({ message }) => message)),
      ),
      // A reply that can't be continued gets no extended keep-alive.
      answerBlocks: answer?.length ?? Infinity,
    },
    consent: isSubscribed ? "requested" : "budget",
    bytes: body.length + (answer ?? []).reduce((sum, block) => sum + 2 * block.length, 0),
    price: () => price(model),
    async send(type, signal) {
      if (isOver || !await rest.isCurrent()) return undefined;
      const call = {
        ...{ upstream, request: incoming, auth: protocol.auth, signal },
        body: keepAlive.write(body, type === "upgrade" ? answer : undefined),
      };
      const response = await askUpstream(protocol.path, call, options);
      if (!response.ok) {
        await response.body?.cancel();
        return REFUSALS.includes(response.status) ? "refused" : undefined;
      }
      isOver = keepAlive.isLimitExhausted(response.headers);
      return keepAlive.readUsage(new Uint8Array(await response.arrayBuffer()));
    },
    onRecorded: rest.onRecorded,
  };
}

const MAX_KNOWN = 1_000;

type Asking = Pick<GatewaySession, "id" | "facts" | "session">;

/**
 * Finds conversations of subagents: they begin while another conversation of their client waits for tools, end with
 * their answer, and are not continued.
 */
export class SubAgents {
  readonly #waiting = new LRUCache<string, string>({ max: MAX_KNOWN });
  readonly #subagents = new LRUCache<string, true>({ max: MAX_KNOWN });

  recordRequest({ id, facts: { scope }, session }: Asking): void {
    const waiting = this.#waiting.get(scope);
    if (waiting === id) this.#waiting.delete(scope);
    else if (waiting !== undefined && usageTotals.days(session.state.days).calls === 0) {
      this.#subagents.set(id, true);
    }
  }

  calls({ id, facts: { scope } }: Asking): void {
    this.#waiting.set(scope, id);
  }

  has({ id }: Pick<Asking, "id">): boolean {
    return this.#subagents.has(id);
  }
}

/** Returns the key under which results of extended keep-alive are recorded; the client's name is a hash of its key. */
export function keyOf(
  { client, request: { protocol, model } }: Pick<GatewayTurn, "client" | "request">,
  options: Pick<GatewayOptions, "upstreams">,
): string {
  return `${upstreamOf(protocol, options).baseURL} ${client} ${model}`;
}
