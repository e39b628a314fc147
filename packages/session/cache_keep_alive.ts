import type { Message, Usage } from "@tare/messages";
import {
  type Idle,
  type KeepAliveEntry,
  type KeepAliveRequest,
  observeUpgrade,
  type Price,
  UNTRIED,
  type UpgradeOutcome,
} from "@tare/planner";
import { LRUCache } from "lru-cache";
import { setTimeout as setTimer } from "node:timers";
import type { Session } from "./session.ts";

/** An idle session whose cached prefix can be kept alive. */
export interface KeepAliveTarget {
  readonly session: Pick<Session, "id" | "nextKeepAlive" | "recordKeepAlive">;
  /** Provider, hash of its API key, and model. */
  readonly key: string;
  readonly idle: Omit<Idle, "nowMs" | "trial" | "isRequested">;
  /**
   * Payment of keep-alive requests. `turn`: a turn in progress; `budget`: the day's budget; `requested`: only during
   * {@linkcode CacheKeepAlive.keepFor}, which applies to the others too.
   */
  readonly consent: "turn" | "budget" | "requested";
  readonly bytes: number;
  price(): Price | undefined;
  /**
   * Sends a keep-alive request and returns its usage. `refused`: the provider doesn't support it; `undefined`: it
   * failed. Errors are reported.
   */
  send(type: KeepAliveRequest["type"], signal: AbortSignal): Promise<Usage | "refused" | undefined>;
  onRecorded(entry: KeepAliveEntry): void;
}

/** Options of {@linkcode CacheKeepAlive}. */
export interface KeepAliveOptions {
  readonly now: () => number;
  /** Most US dollars per UTC day for requests by budget. Default: 0, none are sent. */
  readonly budgetUsdPerDay?: number;
  /** Part of the budget that was spent today. Default: 0. */
  readonly spentUsd?: number;
  /** Most bytes of retained conversations; those idle longest are dropped first. Default: 64 MiB. */
  readonly maxBytes?: number;
  /** Called with errors, which contain no content and no key. */
  readonly onError: (error: unknown) => void;
  /**
   * Calls back after a delay, unless the returned function is called first. Default: a timer that keeps no process
   * alive.
   */
  readonly after?: (ms: number, callback: () => void) => () => void;
}

/** A requested keep-alive period. */
export interface KeepAlivePeriod {
  readonly untilMs: number;
  /** Most that its keep-alive requests cost, in US dollars. */
  readonly maxUsd: number;
}

interface Waiting {
  readonly target: KeepAliveTarget;
  readonly abort: AbortController;
  cancel?: () => void;
}

interface Known {
  readonly trial: ReturnType<typeof observeUpgrade>;
  readonly isRefused?: boolean;
}

const ENTRY_BYTES = 2_000;

const MAX_KNOWN = 1_000;

/** Most cost units of the tokens after a keep-alive request's cache breakpoint, which estimates omit. */
const TAIL_UNITS = 20;

const DAY_MS = 24 * 60 * 60_000;

/**
 * Sends planned and permitted keep-alive requests for idle conversations, which are retained until the last one or
 * their next request.
 */
export class CacheKeepAlive {
  readonly #options: Required<KeepAliveOptions>;
  readonly #waiting: LRUCache<string, Waiting>;
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  readonly #requestedUntil = new LRUCache<string, number>({ max: MAX_KNOWN });
  #spent = { day: 0, usd: 0 };
  #isClosed = false;

  constructor(options: KeepAliveOptions) {
    this.#options = {
      budgetUsdPerDay: 0,
      spentUsd: 0,
      maxBytes: 64 * 2 ** 20,
      after: unheldTimer,
      ...options,
    };
    this.#spend(this.#options.spentUsd);
    this.#waiting = new LRUCache<string, Waiting>({
      maxSize: this.#options.maxBytes,
      sizeCalculation: ({ target }) => ENTRY_BYTES + target.bytes,
      dispose: ({ cancel, abort }) => {
        cancel?.();
        abort.abort();
      },
    });
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Retains an idle conversation while a keep-alive request may be sent. */
  waits(target: KeepAliveTarget): void {
    const { id } = target.session;
    this.cancelNext(id);
    const waiting: Waiting = { target, abort: new AbortController() };
    if (this.#isClosed || !this.#possible(waiting)) return;
    this.#waiting.set(id, waiting);
    if (this.#waiting.peek(id) === waiting) this.#plan(waiting);
  }

  cancelNext(id: string): void {
    this.#waiting.delete(id);
  }

  /**
   * Keeps an idle conversation's cache alive for a period, regardless of the budget. Requests interrupt that until they
   * are answered.
   */
  keepFor(id: string, ms: number): KeepAlivePeriod | "nothing held" | "no price" {
    const waiting = this.#waiting.get(id);
    const possible = waiting && this.#possible(waiting);
    if (!waiting || !possible) return "nothing held";
    const usd = usdOf(waiting.target, possible.costUnits + TAIL_UNITS);
    if (usd === undefined) return "no price";
    const untilMs = this.#options.now() + ms;
    this.#requestedUntil.set(id, untilMs);
    // A request in progress plans the next one.
    if (waiting.cancel) {
      waiting.cancel();
      this.#plan(waiting);
    }
    return { untilMs, maxUsd: Math.ceil(ms / possible.keepsMs) * usd };
  }

  /** Returns milliseconds since the epoch. */
  retainedUntilMs(id: string): number | undefined {
    const untilMs = this.#requestedUntil.get(id);
    return untilMs !== undefined && untilMs > this.#options.now() ? untilMs : undefined;
  }

  forget(id: string): void {
    this.cancelNext(id);
    this.#requestedUntil.delete(id);
  }

  /** Records the result of extended keep-alive: see `LedgerEntry.keepAlive`. */
  observe(key: string, evidence: UpgradeOutcome): void {
    const known = this.#knownOf(key);
    this.#known.set(key, { ...known, trial: observeUpgrade(known.trial, evidence) });
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting.clear();
  }

  #knownOf(key: string): Known {
    return this.#known.get(key) ?? { trial: UNTRIED };
  }

  #next(waiting: Waiting): KeepAliveRequest | undefined {
    const { target } = waiting;
    const next = this.#possible(waiting, this.retainedUntilMs(target.session.id) !== undefined);
    return next && this.#consent(target, next) ? next : undefined;
  }

  #possible({ target }: Waiting, isRequested = true): KeepAliveRequest | undefined {
    const { trial, isRefused } = this.#knownOf(target.key);
    if (isRefused) return undefined;
    return target.session.nextKeepAlive({
      ...target.idle,
      nowMs: this.#options.now(),
      trial,
      isRequested,
    });
  }

  /** Returns how a keep-alive request is paid; `undefined` if it isn't permitted. */
  #consent(
    target: KeepAliveTarget,
    { atMs, costUnits }: KeepAliveRequest,
  ): KeepAliveTarget["consent"] | undefined {
    const { session: { id }, consent } = target;
    if (consent === "turn") return consent;
    if ((this.#requestedUntil.get(id) ?? 0) >= atMs) return "requested";
    const usd = usdOf(target, costUnits);
    if (consent !== "budget" || usd === undefined) return undefined;
    return this.#spentOn(atMs) + usd <= this.#options.budgetUsdPerDay ? consent : undefined;
  }

  #spentOn(ms: number): number {
    const day = Math.floor(ms / DAY_MS);
    return day === this.#spent.day ? this.#spent.usd : 0;
  }

  #spend(usd: number): void {
    const nowMs = this.#options.now();
    this.#spent = { day: Math.floor(nowMs / DAY_MS), usd: this.#spentOn(nowMs) + usd };
  }

  #plan(waiting: Waiting): void {
    const { now, after, onError } = this.#options;
    const next = this.#next(waiting) ?? this.#possible(waiting);
    if (!next) return this.cancelNext(waiting.target.session.id);
    waiting.cancel = after(Math.max(0, next.atMs - now()), () => {
      this.#due(waiting).catch((error) => {
        this.cancelNext(waiting.target.session.id);
        onError(error);
      });
    });
  }

  async #due(waiting: Waiting): Promise<void> {
    const { target, abort: { signal } } = waiting;
    delete waiting.cancel;
    const next = this.#next(waiting);
    if (!next && (this.#possible(waiting)?.atMs ?? 0) <= this.#options.now()) {
      return this.cancelNext(target.session.id);
    }
    // Timers may be early, and the state may have changed since.
    if (!next || next.atMs > this.#options.now()) return this.#plan(waiting);
    const usd = this.#consent(target, next) === "budget" ? usdOf(target, next.costUnits) ?? 0 : 0;
    const atMs = this.#options.now();
    // Reserved, so that concurrent requests don't spend it too.
    this.#spend(usd);
    const usage = await this.#send(target, next.type, signal);
    // The usage of an aborted request is unknown.
    if (signal.aborted) return;
    if (usage === undefined || usage === "refused") {
      this.#spend(-usd);
      if (usage === "refused") this.#refused(target.key, next.type);
      return this.cancelNext(target.session.id);
    }
    const entry = target.session.recordKeepAlive({ type: next.type, atMs, usage });
    if (usd > 0) this.#spend((usdOf(target, entry.costUnits) ?? 0) - usd);
    if (entry.upgrade) this.observe(target.key, entry.upgrade);
    target.onRecorded(entry);
    if (!signal.aborted) this.#plan(waiting);
  }

  async #send(
    { send }: KeepAliveTarget,
    type: KeepAliveRequest["type"],
    signal: AbortSignal,
  ): Promise<Usage | "refused" | undefined> {
    try {
      return await send(type, signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!signal.aborted) this.#options.onError(new Error(`Cannot keep a prompt cached: ${reason}.`));
      return undefined;
    }
  }

  static hasCommitted(messages: readonly Message[]): boolean {
    const replies = messages.flatMap((message) =>
      message.role === "assistant" ? [message.tool_calls ?? []] : []
    );
    return replies.slice(-NEWEST_REPLIES).some((calls) =>
      calls.some((call) => call.type === "function" && COMMIT.test(call.function.arguments))
    );
  }

  /** Remembers what the provider doesn't support. */
  #refused(key: string, type: KeepAliveRequest["type"]): void {
    if (type === "upgrade") return this.observe(key, { of: "bill", isGood: false });
    this.#known.set(key, { ...this.#knownOf(key), isRefused: true });
    this.#options.onError(
      new Error("Cannot keep prompts cached: the provider supports no requests without a reply."),
    );
  }
}

/** Number of the model's newest replies searched for a commit. */
const NEWEST_REPLIES = 3;

const COMMIT = /\bgit\b[^|;&]*\b(?:commit|push)\b/;

function usdOf({ price }: KeepAliveTarget, costUnits: number): number | undefined {
  const known = price();
  return known && costUnits * known.input / 1e6;
}

function unheldTimer(ms: number, callback: () => void): () => void {
  const timer = setTimer(callback, ms);
  timer.unref();
  return () => clearTimeout(timer);
}
