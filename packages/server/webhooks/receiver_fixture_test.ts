/**
 * A receiver of webhooks on loopback, and a clock with a queue of timers. Contains no tests.
 * @module
 */
import { Webhook } from "standardwebhooks";
import type { Store } from "@tare/session";
import type { HttpAgent } from "@tare/server";
import { call } from "../fixture_test.ts";

class Queue<T> {
  readonly #items: T[] = [];
  #waiting: ((item: T) => void)[] = [];

  put(item: T): void {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#items.push(item);
  }

  take(): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<T>();
    if (this.#items.length > 0) resolve(this.#items.shift()!);
    else this.#waiting.push(resolve);
    return promise;
  }

  get length(): number {
    return this.#items.length;
  }
}

export interface Received {
  readonly id: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Receives by HTTP and answers with a given status and headers, or after `until` settles. */
export function receiver(
  answer: (received: Received) => {
    readonly status: number;
    readonly headers?: Record<string, string>;
    readonly until?: Promise<void>;
  } = () => ({ status: 204 }),
) {
  const queue = new Queue<Received>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const headers = Object.fromEntries(request.headers);
    const { pathname: path } = new URL(request.url);
    const received = { id: headers["webhook-id"]!, path, headers, body: await request.text() };
    queue.put(received);
    const { status, until, ...init } = answer(received);
    await until;
    return new Response(null, { status, ...init });
  });
  const host = `127.0.0.1:${server.addr.port}`;
  return {
    host,
    url: `http://${host}/hook`,
    next: () => queue.take(),
    get left() {
      return queue.length;
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns the body if the reference library accepts its signature. */
export function verified({ headers, body }: Received, secret: string): unknown {
  return new Webhook(secret).verify(body, headers);
}

interface Timer {
  readonly ms: number;
  readonly pass: () => void;
}

/** A clock that advances only when a test fires its timers. It starts at the real time, which receivers check. */
export class WaitedClock {
  readonly answers: Queue<Timer> = new Queue();
  readonly claims: Queue<Timer> = new Queue();
  readonly retries: Queue<Timer> = new Queue();
  #now = Date.now();

  readonly now = (): number => this.#now;
  readonly after = (ms: number, work: () => void): () => void => {
    let isStopped = false;
    const pass = () => {
      this.#now += ms;
      if (!isStopped) work();
    };
    const queue = ms === 15_000 ? this.answers : ms === 25_000 ? this.claims : this.retries;
    queue.put({ ms, pass });
    return () => void (isStopped = true);
  };

  skip(ms: number): void {
    this.#now += ms;
  }
}

/** Wraps a store; `attempted` settles after each result of an attempt. */
export function attemptsOf<S extends Store>(
  store: S,
): { readonly store: S; readonly attempted: () => Promise<void> } {
  const attempts = new Queue<void>();
  const commit: Store["commit"] = async (records) => {
    await store.commit(records);
    for (const { type } of records) if (type === "delivery_attempt") attempts.put();
  };
  return { store: { ...store, commit }, attempted: () => attempts.take() };
}

/** A webhook as clients see it. */
export interface WebhookBody {
  readonly id: string;
  readonly failingSince?: string;
  readonly disabled?: { readonly reason: string };
}

export async function addWebhook(
  handler: HttpAgent,
  url: string,
  types: readonly string[] = ["turn.ended"],
): Promise<{ readonly id: string; readonly path: string; readonly secret: string }> {
  const { body } = await call(handler, "POST", "/tare/v1/webhooks", { url, types });
  const { webhook: { id }, secret } = body as { webhook: WebhookBody; secret: string };
  return { id, path: `/tare/v1/webhooks/${id}`, secret };
}

/** Returns a webhook's deliveries, newest first. */
export async function deliveriesOf(handler: HttpAgent, path: string): Promise<readonly DeliveryBody[]> {
  const { body } = await call(handler, "GET", `${path}/deliveries`);
  return (body as { deliveries: readonly DeliveryBody[] }).deliveries;
}

interface DeliveryBody {
  readonly id: string;
  readonly type: string;
  readonly session?: string;
  readonly createdAt: string;
  readonly status: string;
  readonly nextAttemptAt?: string;
  readonly attempts: readonly { readonly at: string; readonly status?: number; readonly error?: string }[];
}
