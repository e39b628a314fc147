import type { Message, Usage } from "@tare/messages";
import {
  type Idle,
  observeUpgrade,
  type Ping,
  type PingEntry,
  type Price,
  UNTRIED,
  type UpgradeOutcome,
} from "@tare/planner";
import { LRUCache } from "lru-cache";
import { setTimeout as setTimer } from "node:timers";
import type { Session } from "./session.ts";

/** An idle session whose prefix can be kept warm, and how. */
export interface Pingable {
  readonly session: Pick<Session, "id" | "nextPing" | "pinged">;
  /** Provider, a hash of its key, and model: what upgrades have shown is remembered by it. */
  readonly key: string;
  /** What it waits for. */
  readonly idle: Omit<Idle, "nowMs" | "trial" | "isAsked">;
  /**
   * By what pings may be paid. `turn`: its owner has a turn under way; `budget`: nobody asked for it, so that it comes out of
   * the day's budget; `asked`: only while {@linkcode Warmth.keepFor} says so, which allows the others too.
   */
  readonly consent: "turn" | "budget" | "asked";
  /** What is held for it: the body, in bytes. */
  readonly bytes: number;
  /** Returns its model's price; `undefined` while that is unknown. */
  price(): Price | undefined;
  /**
   * Sends a ping, and gives what it took. `refused`: the provider doesn't take such a request, and won't the next time;
   * nothing: it failed. What it throws counts as that, and is told.
   */
  ping(type: Ping["type"], signal: AbortSignal): Promise<Usage | "refused" | undefined>;
  /** A ping was booked: the conversation's state must be saved. */
  booked(entry: PingEntry): void;
}

/** How cache keep-alive requests are paid and scheduled. */
export interface WarmthOptions {
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Most that keep-alive requests which nobody asked for may cost on a day of UTC, in US dollars. Default: 0, there are none. */
  readonly budgetUsdPerDay?: number;
  /** Part of it that was spent today before now. Default: 0. */
  readonly spentUsd?: number;
  /** Most bytes that are held of conversations; those that have waited longest are dropped. Default: 64 MiB. */
  readonly maxBytes?: number;
  /** Called with errors, which contain no content and no key. */
  readonly onError: (error: unknown) => void;
  /** Calls back once after so many milliseconds, unless the returned function is called first. Default: a timer that keeps no process alive. */
  readonly after?: (ms: number, callback: () => void) => () => void;
}

/** How long a conversation is kept warm on request. */
export interface KeptWarm {
  /** In milliseconds since the epoch. */
  readonly untilMs: number;
  /** Most that keep-alive requests cost up to then, in US dollars. */
  readonly maxUsd: number;
}

/** What is held of a conversation: there is always a timer, or a ping under way. */
interface Waiting {
  readonly pingable: Pingable;
  readonly abort: AbortController;
  cancel?: () => void;
}

/** What pings have shown of a provider, key and model. */
interface Known {
  readonly trial: ReturnType<typeof observeUpgrade>;
  /** Whether it takes no pings at all. */
  readonly isRefused?: boolean;
}

/** What a conversation takes beside its body, in bytes. */
const ENTRY_BYTES = 2_000;

/** So many keys are remembered, and so many conversations that somebody asked to be kept warm. */
const MAX_KNOWN = 1_000;

/** What stands behind the mark of a ping costs at most so many token units, which nobody reckons with beforehand. */
const TAIL_UNITS = 20;

const DAY_MS = 24 * 60 * 60_000;

/**
 * Keeps the prefixes of idle conversations warm, as far as their clock says so and somebody has consented to pay for it. All
 * that it holds is in memory, until the conversation goes on, no further ping is planned, or there is too much of it.
 */
export class Warmth {
  readonly #options: Required<WarmthOptions>;
  readonly #waiting: LRUCache<string, Waiting>;
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  /** Until when conversations are kept warm because somebody asked for it. */
  readonly #asked = new LRUCache<string, number>({ max: MAX_KNOWN });
  /** What pings out of the budget cost, those under way included, on this day. */
  #spent = { day: 0, usd: 0 };
  #isClosed = false;

  /** Nothing waits. */
  constructor(options: WarmthOptions) {
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
      sizeCalculation: ({ pingable }) => ENTRY_BYTES + pingable.bytes,
      dispose: ({ cancel, abort }) => {
        cancel?.();
        abort.abort();
      },
    });
  }

  /** Conversations that are held; each has a timer or a ping under way. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * A conversation is idle from now on, or waits for something else. It is held as long as somebody consents to the next ping;
   * without consent for as long as somebody could still ask for it, which is until its cache lapses.
   */
  waits(pingable: Pingable): void {
    const { id } = pingable.session;
    this.goesOn(id);
    const waiting: Waiting = { pingable, abort: new AbortController() };
    if (this.#isClosed || !this.#possible(waiting)) return;
    this.#waiting.set(id, waiting);
    if (this.#waiting.peek(id) === waiting) this.#plan(waiting);
  }

  /** A conversation's next request has begun, or it is over: its timer or ping ends, and what was held of it goes. */
  goesOn(id: string): void {
    this.#waiting.delete(id);
  }

  /**
   * Somebody asks that a conversation which waits be kept warm for so many milliseconds, whatever the budget. Requests
   * end that only until their answer.
   */
  keepFor(id: string, ms: number): KeptWarm | "nothing held" | "no price" {
    const waiting = this.#waiting.get(id);
    const possible = waiting && this.#possible(waiting);
    if (!waiting || !possible) return "nothing held";
    const usd = usdOf(waiting.pingable, possible.tokenUnits + TAIL_UNITS);
    if (usd === undefined) return "no price";
    const untilMs = this.#options.now() + ms;
    this.#asked.set(id, untilMs);
    // A ping under way plans the next one by itself.
    if (waiting.cancel) {
      waiting.cancel();
      this.#plan(waiting);
    }
    return { untilMs, maxUsd: Math.ceil(ms / possible.keepsMs) * usd };
  }

  /** Until when somebody asked to keep a conversation warm, in milliseconds since the epoch; nothing if nobody does now. */
  keptUntil(id: string): number | undefined {
    const untilMs = this.#asked.get(id);
    return untilMs !== undefined && untilMs > this.#options.now() ? untilMs : undefined;
  }

  /** A conversation that is over is kept warm no longer, whatever was asked. */
  forget(id: string): void {
    this.goesOn(id);
    this.#asked.delete(id);
  }

  /** A request or a ping has shown this of upgrades: see `LedgerEntry.warmth`. */
  observe(key: string, evidence: UpgradeOutcome): void {
    const known = this.#knownOf(key);
    this.#known.set(key, { ...known, trial: observeUpgrade(known.trial, evidence) });
  }

  /** Ends all timers and pings; nothing waits from now on. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.clear();
  }

  #knownOf(key: string): Known {
    return this.#known.get(key) ?? { trial: UNTRIED };
  }

  /** The next ping that somebody has consented to. */
  #next(waiting: Waiting): Ping | undefined {
    const { pingable } = waiting;
    const next = this.#possible(waiting, this.keptUntil(pingable.session.id) !== undefined);
    return next && this.#consent(pingable, next) ? next : undefined;
  }

  /** The next ping, if somebody asks for it. */
  #possible({ pingable }: Waiting, isAsked = true): Ping | undefined {
    const { trial, isRefused } = this.#knownOf(pingable.key);
    if (isRefused) return undefined;
    return pingable.session.nextPing({
      ...pingable.idle,
      nowMs: this.#options.now(),
      trial,
      isAsked,
    });
  }

  /** By what a ping may be paid; nothing if by nothing. */
  #consent(pingable: Pingable, { atMs, tokenUnits }: Ping): Pingable["consent"] | undefined {
    const { session: { id }, consent } = pingable;
    if (consent === "turn") return consent;
    if ((this.#asked.get(id) ?? 0) >= atMs) return "asked";
    const usd = usdOf(pingable, tokenUnits);
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
    if (!next) return this.goesOn(waiting.pingable.session.id);
    waiting.cancel = after(Math.max(0, next.atMs - now()), () => {
      this.#due(waiting).catch((error) => {
        this.goesOn(waiting.pingable.session.id);
        onError(error);
      });
    });
  }

  async #due(waiting: Waiting): Promise<void> {
    const { pingable, abort: { signal } } = waiting;
    delete waiting.cancel;
    const next = this.#next(waiting);
    // Nobody has asked for it until now.
    if (!next && (this.#possible(waiting)?.atMs ?? 0) <= this.#options.now()) {
      return this.goesOn(pingable.session.id);
    }
    // Timers may come early, and what was known may have changed since.
    if (!next || next.atMs > this.#options.now()) return this.#plan(waiting);
    const usd = this.#consent(pingable, next) === "budget" ? usdOf(pingable, next.tokenUnits) ?? 0 : 0;
    const atMs = this.#options.now();
    // What is under way counts, so that others don't spend it too.
    this.#spend(usd);
    const usage = await this.#send(pingable, next.type, signal);
    // What it took then isn't known.
    if (signal.aborted) return;
    if (usage === undefined || usage === "refused") {
      this.#spend(-usd);
      if (usage === "refused") this.#refused(pingable.key, next.type);
      return this.goesOn(pingable.session.id);
    }
    const entry = pingable.session.pinged({ type: next.type, atMs, usage });
    if (usd > 0) this.#spend((usdOf(pingable, entry.tokenUnits) ?? 0) - usd);
    if (entry.upgrade) this.observe(pingable.key, entry.upgrade);
    pingable.booked(entry);
    if (!signal.aborted) this.#plan(waiting);
  }

  async #send(
    { ping }: Pingable,
    type: Ping["type"],
    signal: AbortSignal,
  ): Promise<Usage | "refused" | undefined> {
    try {
      return await ping(type, signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!signal.aborted) this.#options.onError(new Error(`Cannot keep a prompt warm: ${reason}.`));
      return undefined;
    }
  }

  /** Whether one of the model's newest calls commits or pushes, by its words. */
  static hasCommitted(messages: readonly Message[]): boolean {
    const replies = messages.flatMap((message) =>
      message.role === "assistant" ? [message.tool_calls ?? []] : []
    );
    return replies.slice(-NEWEST_REPLIES).some((calls) =>
      calls.some((call) => call.type === "function" && COMMIT.test(call.function.arguments))
    );
  }

  /** Of a provider that takes no upgrade, or no ping at all, none is asked for again. */
  #refused(key: string, type: Ping["type"]): void {
    if (type === "upgrade") return this.observe(key, { of: "bill", isGood: false });
    this.#known.set(key, { ...this.#knownOf(key), isRefused: true });
    this.#options.onError(
      new Error("Cannot keep prompts warm: the provider takes no request that asks for no reply."),
    );
  }
}

/** So many of the model's newest replies tell whether work was just handed in. */
const NEWEST_REPLIES = 3;

const COMMIT = /\bgit\b[^|;&]*\b(?:commit|push)\b/;

function usdOf({ price }: Pingable, tokenUnits: number): number | undefined {
  const known = price();
  return known && tokenUnits * known.input / 1e6;
}

function unheldTimer(ms: number, callback: () => void): () => void {
  const timer = setTimer(callback, ms);
  timer.unref();
  return () => clearTimeout(timer);
}
