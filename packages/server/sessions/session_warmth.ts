import { Warmth } from "@tare/session";
import type { Pingable } from "@tare/session/internal";
import { ModelError, type TurnEnd, type TurnLedger } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { AssistantMessage, KeepablePrompt, Message, Usage } from "@tare/messages";
import type { LedgerEntry, Ping } from "@tare/planner";
import { callCost } from "@tare/planner/internal/parts";
import { DELEGATE_TOOL } from "../helpers/helpers.ts";
import type { SessionPrompt } from "./session_prompt.ts";
import type { SessionNeeds } from "./session_types.ts";

/** What a session waits for, and by what pings may be paid meanwhile. */
interface Waits extends Pick<Pingable["idle"], "pending" | "hasCommitted">, Pick<Pingable, "consent"> {}

interface SessionWarmthOptions extends Pick<SessionNeeds, "id" | "settings" | "environment"> {
  readonly prompt: () => SessionPrompt;
  /** Does some work while nothing else changes the session. Throws if another server has it. */
  readonly alone: (work: () => Promise<void>) => Promise<void>;
  /** Books a ping, which cost so much. Never throws. */
  readonly booked: (cost: TurnLedger) => void;
}

/** Some bytes of a request for each token of its prompt. */
const BYTES_A_TOKEN = 4;

/**
 * Keeps what a session asked last in its provider's cache while the session waits. What that takes is in memory alone, and
 * goes as soon as the session goes on.
 */
export class SessionWarmth {
  readonly #options: SessionWarmthOptions;
  /** The newest request's prompt, if it can be asked for again. */
  #kept: KeepablePrompt | undefined;

  constructor(options: SessionWarmthOptions) {
    this.#options = options;
  }

  made(prompt: KeepablePrompt): void {
    this.#kept = prompt;
  }

  /** What a request has shown of upgrades counts for all sessions. */
  learns({ warmth }: Pick<LedgerEntry, "warmth">): void {
    if (warmth?.upgrade) this.#options.environment.warmth?.observe(this.#key, warmth.upgrade);
  }

  waitsForCalls(calls: NonNullable<AssistantMessage["tool_calls"]>): void {
    const isHelped = calls.some((call) =>
      call.type === "function" && call.function.name === DELEGATE_TOOL.function.name
    );
    this.#wait({ pending: isHelped ? "helper" : "tool", consent: "turn" });
  }

  /** A turn that said this has ended. Nobody comes back to a helper, nor surely to what was stopped or failed. */
  rests({ reason }: Pick<TurnEnd, "reason">, said: readonly Message[], isHelper: boolean): void {
    const isHandedIn = Warmth.hasCommitted(said);
    if (reason === "approval") {
      return this.#wait({ pending: "person", consent: "turn", hasCommitted: isHandedIn });
    }
    // Its client runs them.
    if (reason === "tool_calls") return this.#wait({ pending: "tool", consent: "turn" });
    if (isHelper || GIVEN_UP.includes(reason)) return this.goesOn();
    this.#wait({ pending: "person", consent: "budget", hasCommitted: isHandedIn });
  }

  /** A request begins, or nothing more comes of the last one. */
  goesOn(): void {
    this.#kept = undefined;
    this.#options.environment.warmth?.goesOn(this.#options.id);
  }

  forget(): void {
    this.goesOn();
    this.#options.environment.warmth?.forget(this.#options.id);
  }

  #wait(waits: Waits): void {
    const { environment: { warmth }, booked } = this.#options;
    const kept = this.#kept;
    if (!kept || !warmth) return;
    const prompt = this.#options.prompt();
    const { conversation } = prompt;
    const rates = this.#rates;
    warmth.waits({
      ...{ session: conversation, consent: waits.consent, key: this.#key, idle: this.#idle(kept, waits) },
      bytes: BYTES_A_TOKEN * (conversation.state.figures?.promptTokens ?? 0),
      price: () => rates.price,
      ping: (type, signal) => this.#ping(kept, type, signal),
      booked(entry) {
        const { usage } = entry;
        const { promptTokens, cachedTokens, outputTokens } = usage;
        prompt.bookPing(entry);
        booked({ ...EMPTY_LEDGER, promptTokens, cachedTokens, outputTokens, ...callCost(usage, rates) });
      },
    });
  }

  async #ping(
    { ping }: KeepablePrompt,
    type: Ping["type"],
    signal: AbortSignal,
  ): Promise<Usage | "refused" | undefined> {
    const { alone, environment: { store } } = this.#options;
    // What another server has done meanwhile ends this.
    if (store.shared) await alone(() => Promise.resolve());
    signal.throwIfAborted();
    try {
      return await ping(type, signal);
    } catch (error) {
      if (error instanceof ModelError && error.code === "bad_request") return "refused";
      throw error;
    }
  }

  #idle({ answerBlocks }: KeepablePrompt, { consent: _, ...idle }: Waits): Pingable["idle"] {
    return { ...idle, answerBlocks };
  }

  get #rates() {
    const { environment, settings: { model } } = this.#options;
    return environment.ratesOf(model);
  }

  /** Whom its requests go to, with which model: the server has one key for each address. */
  get #key(): string {
    const { environment: { models: { address } }, settings: { model } } = this.#options;
    return `${address?.(model) ?? this.#rates.profile.name} ${model}`;
  }
}

/** Ends of a turn behind which nothing is kept. */
const GIVEN_UP: readonly TurnEnd["reason"][] = ["cancelled", "stalled", "model_error", "internal_error"];
