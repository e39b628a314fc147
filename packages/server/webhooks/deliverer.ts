import type { Store } from "@tare/session";
import { Coalescer, type StoredDelivery, type StoreRecord } from "@tare/session/internal";
import { type Attempted, sendWebhook, signatures } from "./send_webhook.ts";
import { type DeliveryValue, valueOf, type Webhook, type WebhookHealth, type Webhooks } from "./webhooks.ts";

/** Parallel attempts, in total and per receiver. */
const LIMITS = { all: 32, ofOne: 4 };

const TIMEOUT_MS = 15_000;

/** A server's exclusive time for an attempt and its commit. */
const CLAIM_MS = 25_000;

const [SECOND_MS, MINUTE_MS, HOUR_MS] = [1_000, 60_000, 3_600_000];

/** Delays before each retry, for about a day. */
const RETRIES_MS: readonly number[] = [
  ...[5, 30].map((count) => count * SECOND_MS),
  ...[2, 10, 30].map((count) => count * MINUTE_MS),
  ...[1, 2, 4, 6, 10].map((count) => count * HOUR_MS),
];

/** Variation of a delay, so that retries don't coincide. */
const JITTER = 0.2;

/** A receiver's longest delay. */
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS;

/** Retention per webhook. */
const RETAINED = { olderThanMs: 30 * 24 * HOUR_MS, keep: 10_000 };

const EXPIRE_MS = 10 * MINUTE_MS;

/** Stored attempts per delivery. */
const MAX_ATTEMPTS = 20;

/** Delay after a failure of the store, or if deliveries are locked. */
const AGAIN_MS = 5_000;

/** Sends pending deliveries. Each is claimed in the store, so that only one server attempts it. */
export class Deliverer {
  readonly #webhooks: Webhooks;
  readonly #store: Store;
  readonly #after: (ms: number, work: () => void) => () => void;
  readonly #random: () => number;
  readonly #onError: (error: unknown) => void;
  readonly #running = new Set<{ readonly receiver: string; readonly done: Promise<void> }>();
  readonly #expiredAtMs = new Map<string, number>();
  readonly #closing = new AbortController();
  #stopTimer = () => {};
  readonly #looking: Coalescer;

  /** Starts with `wake()`. */
  constructor({ webhooks, store, after, random = Math.random, onError }: {
    readonly webhooks: Webhooks;
    readonly store: Store;
    readonly after: (ms: number, work: () => void) => () => void;
    /** Default: `Math.random`. */
    readonly random?: (() => number) | undefined;
    readonly onError: (error: unknown) => void;
  }) {
    this.#webhooks = webhooks;
    this.#store = store;
    this.#after = after;
    this.#random = random;
    this.#onError = onError;
    this.#looking = new Coalescer(() => this.#inspect(), (error) => {
      onError(error);
      this.#wakeIn(AGAIN_MS);
    });
  }

  wake(): void {
    if (!this.#closing.signal.aborted) void this.#looking.run();
  }

  /** Stops; other servers take over attempts in progress. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server ended."));
    this.#stopTimer();
    await this.#looking.settled();
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  #wakeIn(ms: number): void {
    this.#stopTimer();
    this.#stopTimer = () => {};
    if (!this.#closing.signal.aborted) this.#stopTimer = this.#after(ms, () => this.wake());
  }

  async #inspect(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    await this.#webhooks.ready();
    const enabled = this.#webhooks.enabled();
    const receivers = enabled.map(({ id }) => ({ receiver: id, limit: LIMITS.ofOne - this.#countOf(id) }))
      .filter(({ limit }) => limit > 0);
    const limit = LIMITS.all - this.#running.size;
    // The end of an attempt wakes it.
    if (receivers.length === 0 || limit <= 0) return;
    const { claimed, nextInMs } = await this.#store.claimDeliveries({ receivers, limit, forMs: CLAIM_MS });
    for (const delivery of claimed) {
      const { receiver } = delivery;
      const webhook = enabled.find(({ id }) => id === receiver)!;
      const done = this.#attempt(delivery, webhook).catch(this.#onError).finally(() => {
        this.#running.delete(running);
        this.wake();
      });
      const running = { receiver, done };
      this.#running.add(running);
    }
    await this.#expire(new Set(claimed.map(({ receiver }) => receiver)));
    if (nextInMs === undefined) this.#stopTimer();
    else if (nextInMs === 0 && claimed.length > 0) this.wake();
    else this.#wakeIn(nextInMs || AGAIN_MS);
  }

  #countOf(receiver: string): number {
    return [...this.#running].filter((one) => one.receiver === receiver).length;
  }

  async #attempt(delivery: StoredDelivery, webhook: Webhook): Promise<void> {
    const { id, claims: claim } = delivery;
    const before = valueOf(delivery);
    const atMs = this.#store.now();
    const attempted = await this.#send(id, before.body, webhook);
    if (this.#closing.signal.aborted && "error" in attempted) {
      await this.#store.commit([{ type: "delivery_attempt", id, claim, value: before, dueInMs: 0 }]);
      return;
    }
    const isDone = "status" in attempted && attempted.status >= 200 && attempted.status < 300;
    const isGone = "status" in attempted && attempted.status === 410;
    const retryInMs = isDone || isGone ? undefined : this.#retryInMs(before.tries, attempted);
    const value: DeliveryValue = {
      ...before,
      status: isDone ? "delivered" : retryInMs === undefined ? "failed" : "waiting",
      tries: before.tries + 1,
      attempts: [
        ...before.attempts,
        { atMs, ...("status" in attempted ? { status: attempted.status } : { error: attempted.error }) },
      ].slice(-MAX_ATTEMPTS),
    };
    const record: StoreRecord = {
      ...{ type: "delivery_attempt", id, claim, value },
      ...(retryInMs !== undefined && { dueInMs: retryInMs }),
    };
    const firstAtMs = value.attempts.at(-value.tries)?.atMs ?? atMs;
    const healthAfter = ({ failingSinceMs = atMs }: WebhookHealth): WebhookHealth => {
      if (isDone) return {};
      if (isGone) return { failingSinceMs, disabled: { reason: "gone", atMs } };
      // Another delivery may have succeeded since the first attempt.
      const isFailing = retryInMs === undefined && firstAtMs >= failingSinceMs;
      return { failingSinceMs, ...(isFailing && { disabled: { reason: "failing", atMs } }) };
    };
    const disabled = await this.#webhooks.note(webhook.id, healthAfter, [record]);
    if (!disabled) return;
    const why = isGone
      ? "it returned 410"
      : `no delivery has succeeded since ${new Date(disabled.failingSinceMs ?? atMs).toISOString()}`;
    // A string: a stack would be useless.
    this.#onError(`Disabled webhook ${webhook.id} (${webhook.url}): ${why}.`);
  }

  async #send(id: string, body: string, webhook: Webhook): Promise<Attempted> {
    const late = new AbortController();
    const limit = `No response within ${TIMEOUT_MS / SECOND_MS} seconds.`;
    const stop = this.#after(TIMEOUT_MS, () => late.abort(new Error(limit)));
    const timestamp = String(Math.floor(this.#store.now() / SECOND_MS));
    try {
      return await sendWebhook(webhook.url, {
        body,
        headers: {
          "webhook-id": id,
          "webhook-timestamp": timestamp,
          "webhook-signature": signatures(this.#webhooks.secretsOf(webhook), { id, timestamp, body }),
        },
        signal: AbortSignal.any([late.signal, this.#closing.signal]),
        reach: this.#webhooks.reach,
      });
    } finally {
      stop();
    }
  }

  #retryInMs(tries: number, attempted: Attempted): number | undefined {
    const waitMs = RETRIES_MS[tries];
    if (waitMs === undefined) return undefined;
    const jitteredMs = waitMs * (1 + JITTER * (2 * this.#random() - 1));
    const retryInMs = "status" in attempted ? retryAfterMs(attempted.retryAfter, this.#store.now()) : 0;
    return Math.round(Math.max(jitteredMs, Math.min(retryInMs, MAX_RETRY_AFTER_MS)));
  }

  async #expire(receivers: ReadonlySet<string>): Promise<void> {
    const nowMs = this.#store.now();
    for (const receiver of receivers) {
      if (nowMs - (this.#expiredAtMs.get(receiver) ?? -Infinity) < EXPIRE_MS) continue;
      this.#expiredAtMs.set(receiver, nowMs);
      await this.#store.expireDeliveries({ receiver, ...RETAINED });
    }
  }
}

/** Parses a `Retry-After`: seconds, or a date. */
function retryAfterMs(text: string | null, nowMs: number): number {
  if (text === null) return 0;
  const ms = /^\d+$/.test(text.trim()) ? Number(text) * SECOND_MS : Date.parse(text) - nowMs;
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}
