import { type CountTokens, estimateTokens } from "@tare/messages";
import { chooseProfile, type LedgerEntry, listWindow, type PromptSessionOptions } from "@tare/planner";
import type { Archive } from "@tare/prune";

/**
 * Storage of conversation states.
 *
 * @example A conversation continues in another process with the same bytes
 * ```ts
 * import { assert, assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/ai-sdk";
 * import { memoryArchive } from "@tare/prune";
 *
 * const states = new Map<string, string>();
 * const options = {
 *   store: {
 *     load: (key: string) => JSON.parse(states.get(key) ?? "null"),
 *     save: (key: string, state: unknown) => void states.set(key, JSON.stringify(state)),
 *   },
 *   archive: memoryArchive(), // one that outlives the process
 * };
 *
 * // A model of the AI SDK that records its prompts.
 * const prompts: unknown[] = [];
 * const model = {
 *   specificationVersion: "v4",
 *   modelId: "gpt-5.5",
 *   doGenerate(params: { prompt: object[] }) {
 *     prompts.push(params.prompt);
 *     return Promise.resolve({ usage: { inputTokens: {}, outputTokens: {} } });
 *   },
 *   doStream: () => Promise.reject(new Error("not streamed")),
 * };
 *
 * // The request after a step that read a log.
 * const log = Array.from({ length: 20_000 }, (_, at) => `GET /page/${at} 200\n`).join("");
 * const output = { type: "text", value: log };
 * const prompt = [
 *   { role: "user", content: [{ type: "text", text: "Is the server up?" }] },
 *   {
 *     role: "assistant",
 *     content: [{ type: "tool-call", toolCallId: "1", toolName: "read_log", input: {} }],
 *   },
 *   { role: "tool", content: [{ type: "tool-result", toolCallId: "1", toolName: "read_log", output }] },
 * ];
 * await tare({ model, ...options }).model.doGenerate({ prompt });
 * assert(JSON.stringify(prompts[0]).length < 0.25 * JSON.stringify(prompt).length);
 *
 * await tare({ model, ...options }).model.doGenerate({ prompt });
 * assertEquals(prompts[1], prompts[0]);
 * ```
 */
export interface StateStore {
  /** Returns the newest state of a key, or a nullish value. Called once per key, before its first call. */
  load(key: string): unknown;
  /** Saves JSON data under a key, before a request is sent and after its call was recorded. Both wait for it. */
  save(key: string, state: unknown): unknown;
}

/** Options of an adapter. Defaults depend on the model. */
export interface TareOptions<Call> extends Partial<Pick<PromptSessionOptions, "profile" | "windowTokens">> {
  /** Counts tokens. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
  /** Further options of `plannerSession()` of `@tare/planner`. Default: none. */
  readonly planning?: Partial<
    Omit<PromptSessionOptions, "state" | "archive" | "profile" | "countTokens" | "windowTokens">
  >;
  /**
   * Returns the name of a call's conversation. Calls with one name are still distinguished by content, such as subagents of
   * one thread. Default: the framework's name, if any, otherwise only the content.
   */
  readonly conversation?: (call: Call) => string | undefined;
  /**
   * Store of conversation states, by name or by first messages, so that they continue after a restart. If it
   * fails, calls continue. Default: none.
   */
  readonly store?: StateStore;
  /**
   * Archive of evicted content; a conversation reads only its own. Required with a `store`. Default: in memory, for the life
   * of the conversation.
   */
  readonly archive?: Archive;
  /** Receives warnings for users, such as that the archive failed and nothing was evicted. Default: `console.warn`. */
  readonly warn?: (sentence: string) => void;
  /** Limits of conversations in memory; the least recently used are evicted first. */
  readonly memory?: {
    /** Number of conversations. Default: 1,000. */
    readonly conversations?: number;
    /** Estimated size in bytes. Default: 256 MiB. */
    readonly bytes?: number;
  };
  /** Clock in milliseconds since any fixed time. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Ledger of an adapter's calls. */
export interface AdapterLedger {
  /** Cost and causes of the newest 1,000 calls, oldest first, with the number of their conversation. */
  readonly ledger: readonly (LedgerEntry & { readonly conversation: number })[];
  /** Cost of all calls, in cost units: the price of one uncached input token. */
  readonly total: {
    readonly calls: number;
    readonly costUnits: number;
    /** Baseline: the cost of the same calls without Tare. */
    readonly baselineCostUnits: number;
  };
}

/** Returns a model's name, if it has one. */
export function modelName(model: unknown): string | undefined {
  if (typeof model === "string") return model;
  const { modelId, model: name, modelName } = Object(model) as Readonly<Record<string, unknown>>;
  return [modelId, name, modelName].find((one) => typeof one === "string");
}

/** Returns the options with defaults for the model. */
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

/** Returns whether the provider caches only marked prefixes. */
export function cachesMarked(profile: PromptSessionOptions["profile"]): boolean {
  return (typeof profile === "function" ? profile() : profile).writes !== undefined;
}

export function warnByConsole(sentence: string): void {
  // deno-lint-ignore no-console -- The default for warnings, which must not be lost.
  console.warn(sentence);
}
