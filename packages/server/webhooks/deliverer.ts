import type { Store } from "@tare/session";
import { Coalescer, type StoredDelivery, type StoreRecord } from "@tare/session/internal";
import { type Attempted, sendWebhook, signatures } from "./send_webhook.ts";
import { type DeliveryValue, valueOf, type Webhook, type WebhookHealth, type Webhooks } from "./webhooks.ts";

/** Attempts that run at once, and of those to one receiver: a slow one leaves room for the others. */
const LIMITS = { all: 32, ofOne: 4 };

/** How long a receiver may take to answer, in milliseconds. */
const TIMEOUT_MS = 15_000;

/** How long an attempt is this server's alone: as long as it takes, and to write what came of it. */
const CLAIM_MS = 25_000;

const [SECOND_MS, MINUTE_MS, HOUR_MS] = [1_000, 60_000, 3_600_000];

/** When a delivery that failed is attempted again, after the attempt before: for about a day. */
const RETRIES_MS: readonly number[] = [
  ...[5, 30].map((count) => count * SECOND_MS),
  ...[2, 10, 30].map((count) => count * MINUTE_MS),
  ...[1, 2, 4, 6, 10].map((count) => count * HOUR_MS),
];

/** By which part of itself such a time is longer or shorter, so that what failed together doesn't come together. */
const JITTER = 0.2;

/** Longest time that a receiver can ask for. */
const MAX_RETRY_AFTER_MS = 24 * HOUR_MS;

/** What is kept of each webhook's deliveries, whatever became of them. */
const KEPT = { olderThanMs: 30 * 24 * HOUR_MS, keep: 10_000 };

/** How often it is looked after that. */
const EXPIRE_MS = 10 * MINUTE_MS;

/** Attempts that are kept of one delivery. */
const MAX_ATTEMPTS = 20;

/** After which time is tried again what the store failed at, or what somebody else has locked just now. */
const AGAIN_MS = 5_000;

/** Sends pending deliveries. Each is claimed in the store, so that one of several servers attempts it. */
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

  /** Sends nothing until it is woken. */
  constructor({ webhooks, store, after, random = Math.random, onError }: {
    readonly webhooks: Webhooks;
    readonly store: Store;
    /** Calls back after so many milliseconds, until the function that it returns is called. */
    readonly after: (ms: number, work: () => void) => () => void;
    /** A number from 0 to 1. Default: `Math.random`. */
    readonly random?: (() => number) | undefined;
    readonly onError: (error: unknown) => void;
  }) {
    this.#webhooks = webhooks;
    this.#store = store;
    this.#after = after;
    this.#random = random;
    this.#onError = onError;
    this.#looking = new Coalescer(() => this.#look(), (error) => {
      onError(error);
      this.#wakeIn(AGAIN_MS);
    });
  }

  wake(): void {
    if (!this.#closing.signal.aborted) void this.#looking.run();
  }

  /** Attempts nothing more. What was under way is given back, for another server. */
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

  /** Takes on what is due, as far as there is room, and waits for what is due next. */
  async #look(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    await this.#webhooks.ready();
    const enabled = this.#webhooks.enabled();
    const receivers = enabled.map(({ id }) => ({ receiver: id, limit: LIMITS.ofOne - this.#countOf(id) }))
      .filter(({ limit }) => limit > 0);
    const limit = LIMITS.all - this.#running.size;
    // Where there is no room somebody wakes this who is done.
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
      await this.#store.commit([{ type: "attempted", id, claim, value: before, dueInMs: 0 }]);
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
      ...{ type: "attempted", id, claim, value },
      ...(retryInMs !== undefined && { dueInMs: retryInMs }),
    };
    const firstAtMs = value.attempts.at(-value.tries)?.atMs ?? atMs;
    const healthAfter = ({ failingSinceMs = atMs }: WebhookHealth): WebhookHealth => {
      if (isDone) return {};
      if (isGone) return { failingSinceMs, disabled: { reason: "gone", atMs } };
      // Another delivery may have got through since this one was attempted first.
      const isFailing = retryInMs === undefined && firstAtMs >= failingSinceMs;
      return { failingSinceMs, ...(isFailing && { disabled: { reason: "failing", atMs } }) };
    };
    const disabled = await this.#webhooks.note(webhook.id, healthAfter, [record]);
    if (!disabled) return;
    const why = isGone
      ? "it answered 410"
      : `nothing has got through since ${new Date(disabled.failingSinceMs ?? atMs).toISOString()}`;
    // A sentence: no code of ours is at fault, whose stack would be of use.
    this.#onError(`Disabled webhook ${webhook.id} (${webhook.url}): ${why}.`);
  }

  async #send(id: string, body: string, webhook: Webhook): Promise<Attempted> {
    const late = new AbortController();
    const limit = `Not answered within ${TIMEOUT_MS / SECOND_MS} seconds.`;
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

  /** In how many milliseconds a delivery that has failed once more is attempted again; nothing if it isn't any more. */
  #retryInMs(tries: number, attempted: Attempted): number | undefined {
    const waitMs = RETRIES_MS[tries];
    if (waitMs === undefined) return undefined;
    const jitteredMs = waitMs * (1 + JITTER * (2 * this.#random() - 1));
    const askedMs = "status" in attempted ? retryAfterMs(attempted.retryAfter, this.#store.now()) : 0;
    return Math.round(Math.max(jitteredMs, Math.min(askedMs, MAX_RETRY_AFTER_MS)));
  }

  /** Lets go what is too old or too much. */
  async #expire(receivers: ReadonlySet<string>): Promise<void> {
    const nowMs = this.#store.now();
    for (const receiver of receivers) {
      if (nowMs - (this.#expiredAtMs.get(receiver) ?? -Infinity) < EXPIRE_MS) continue;
      this.#expiredAtMs.set(receiver, nowMs);
      await this.#store.expireDeliveries({ receiver, ...KEPT });
    }
  }
}

/** What a `Retry-After` asks for: seconds, or a date. */
function retryAfterMs(text: string | null, nowMs: number): number {
  if (text === null) return 0;
  const ms = /^\d+$/.test(text.trim()) ? Number(text) * SECOND_MS : Date.parse(text) - nowMs;
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}
