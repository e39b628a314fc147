import { estimateTokens } from "@tare/messages";
import { chooseProfile, type LedgerEntry, listWindow, type PromptSessionOptions } from "@tare/planner";
import type { Archive } from "@tare/prune";

/** What an adapter goes by beside the model: nothing of it must be given. */
export interface TareOptions<Call> extends Partial<Omit<PromptSessionOptions, "state">> {
  /**
   * Names the conversation that a call is of. Calls of one name are still told apart by what they say, as subagents of one
   * thread are. Default: the framework's own name for it, where it hands one on, or else what the call says alone.
   */
  readonly conversation?: (call: Call) => string | undefined;
  /**
   * Where what is known of conversations is kept, by their names or else by what they begin with, so that a restart goes on
   * where it was. Both may fail: calls go on. Default: nowhere.
   */
  readonly store?: {
    /** What was saved last under a key; nothing if nothing was. Asked once for each key, when its first call comes. */
    load(key: string): unknown;
    /** Keeps plain JSON data under a key: before a request is sent, and after its call was booked. Both wait for it. */
    save(key: string, state: unknown): unknown;
  };
  /**
   * Where what leaves a prompt goes; a conversation reads there what it has put itself. Must be given with a `store`.
   * Default: in memory, as long as the conversation is.
   */
  readonly archive?: Archive;
  /** Told sentences for people, such as that the archive could not be written and so nothing left the prompt. Default: `console.warn`. */
  readonly warn?: (sentence: string) => void;
  /** So much is remembered; what was used longest ago goes first. Default: 1,000 conversations, and 256 MiB of them. */
  readonly memory?: { readonly conversations?: number; readonly bytes?: number };
  /** The time, in milliseconds since any fixed moment. Default: the runtime's clock. */
  readonly now?: () => number;
}

/** What every adapter tells of its calls. */
export interface Books {
  /** What the newest 1,000 calls cost, and why, first to last, each with the number of its conversation. */
  readonly ledger: readonly (LedgerEntry & { readonly conversation: number })[];
  /** What all calls took, and would have taken without Tare, in the price of one uncached input token. */
  readonly total: {
    readonly calls: number;
    readonly tokenUnits: number;
    readonly withoutTokenUnits: number;
  };
}

/** The name of a model; nothing if it doesn't say. */
export function modelName(model: unknown): string | undefined {
  if (typeof model === "string") return model;
  const { modelId, model: name, modelName } = Object(model) as Readonly<Record<string, unknown>>;
  return [modelId, name, modelName].find((one) => typeof one === "string");
}

/** Options with what the model decides of those that weren't given. */
export function withDefaults<Call>(
  model: unknown,
  options: TareOptions<Call>,
): TareOptions<Call> & Pick<PromptSessionOptions, "profile" | "countTokens"> {
  const name = modelName(model) ?? "";
  const windowTokens = options.windowTokens ?? listWindow(name);
  return {
    ...options,
    profile: options.profile ?? chooseProfile({ model: name }),
    countTokens: options.countTokens ?? estimateTokens,
    ...(windowTokens !== undefined && { windowTokens }),
  };
}

/** Whether a provider with these rules caches only what a request marks, for as long as the request chooses. */
export function cachesMarked(profile: PromptSessionOptions["profile"]): boolean {
  return (typeof profile === "function" ? profile() : profile).writes !== undefined;
}

/** The usual way of telling people. */
export function warnByConsole(sentence: string): void {
  // deno-lint-ignore no-console -- What people should know must not be lost where nobody says how to tell them.
  console.warn(sentence);
}
