import { type CountTokens, estimateTokens } from "@tare/messages";
import { chooseProfile, type LedgerEntry, listWindow, type PromptSessionOptions } from "@tare/planner";
import type { Archive } from "@tare/prune";

/**
 * Where an adapter stores the state of conversations.
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
  /** Returns what was saved last under a key; nothing if nothing was. Called once for each key, before its first call. */
  load(key: string): unknown;
  /** Saves plain JSON data under a key: before a request is sent, and after its call was recorded. Both wait for it. */
  save(key: string, state: unknown): unknown;
}

/** Options of an adapter. All may be omitted: the model decides the defaults. */
export interface TareOptions<Call> extends Partial<Pick<PromptSessionOptions, "profile" | "windowTokens">> {
  /** Counts tokens. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
  /** How prompts are planned, besides provider, window and archive: options of `plannerSession()` of `@tare/planner`. */
  readonly planning?: Partial<
    Omit<PromptSessionOptions, "state" | "archive" | "profile" | "countTokens" | "windowTokens">
  >;
  /**
   * Returns the name of a call's conversation. Calls of one name are still distinguished by their content, as subagents of
   * one thread are. Default: the framework's own name for it, if it passes one, or else the content only.
   */
  readonly conversation?: (call: Call) => string | undefined;
  /**
   * Where the state of conversations is stored, by their names or else by their beginnings, so that they continue after a
   * restart. Both functions may fail: calls continue. Default: nowhere.
   */
  readonly store?: StateStore;
  /**
   * Where evicted content is archived; a conversation reads only what it has put there. Required with a `store`.
   * Default: in memory, as long as the conversation is.
   */
  readonly archive?: Archive;
  /** Called with warnings for users, such as that the archive failed and so nothing was evicted. Default: `console.warn`. */
  readonly warn?: (sentence: string) => void;
  /** How much an adapter remembers: what was used longest ago is forgotten first. */
  readonly memory?: {
    /** Default: 1,000. */
    readonly conversations?: number;
    /** Default: 256 MiB. */
    readonly bytes?: number;
  };
  /** The time, in milliseconds since any fixed moment. Default: the runtime's clock. */
  readonly now?: () => number;
}

/** What every adapter reports of its calls. */
export interface Books {
  /** What the newest 1,000 calls cost, and why, the oldest first, each with the number of its conversation. */
  readonly ledger: readonly (LedgerEntry & { readonly conversation: number })[];
  /** Cost of all calls, in cost units: one is the price of one uncached input token. */
  readonly total: {
    readonly calls: number;
    readonly tokenUnits: number;
    /** What the same calls would have cost without Tare. */
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
