/**
 * Cache breakpoints in prompts of the AI SDK and of Mastra, and in calls of LangChain, for providers that cache only marked
 * prefixes. Names are those of the frameworks' provider options.
 *
 * @module
 */
import type { Profile, SessionView } from "@tare/planner";
import type { PromptMessage, PromptPart } from "./model_prompt.ts";

const MAX_BREAKPOINTS = 4;

const HOUR_MS = 3_600_000;

type ProviderOptions = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

/** Cache rules, or a function that returns the current ones. */
type Rules = Profile | (() => Profile);

function markOf(rules: Rules) {
  const { ttlMs } = typeof rules === "function" ? rules() : rules;
  return { type: "ephemeral", ...(ttlMs >= HOUR_MS && { ttl: "1h" }) };
}

/**
 * Adds cache breakpoints, at most four including existing ones: at the end, at the end of the earlier request that is a
 * prefix, after the last edited message, and after the instructions. Returns the same prompt if the call requests automatic
 * breakpoints.
 *
 * @param ends For each message of the prompt, the number of view messages up to its end.
 */
export function setBreakpoints(
  prompt: readonly PromptMessage[],
  { profile, view: { messages, stable }, ends, tools, call }: {
    readonly profile: Rules;
    readonly view: Pick<SessionView, "messages" | "stable">;
    readonly ends: readonly number[];
    readonly tools: readonly unknown[];
    readonly call: { readonly providerOptions?: unknown };
  },
): readonly PromptMessage[] {
  if (isMarked(call)) return prompt;
  const mark = markOf(profile);
  const { shared = 0, edited = 0 } = stable ?? {};
  // A new session may continue a prompt that was sent elsewhere.
  const known = shared > 0 ? shared : messages.length;
  const reply = messages.findLastIndex(({ role }, at) => at <= known && role === "assistant");
  const heads = messages.findIndex(({ role }) => role !== "system");
  const places = [messages.length, reply, edited, heads].map((length) =>
    length > 0 ? ends.findIndex((end) => end >= length) : -1
  );
  const room = Math.max(
    0,
    MAX_BREAKPOINTS - [...tools, ...prompt].reduce((sum: number, one) => sum + breakpointsIn(one), 0),
  );
  const marked = new Set(places.filter((at) => at >= 0 && mayHaveMark(prompt[at]!)));
  const chosen = [...marked].slice(0, room);
  return prompt.map((message, at) => chosen.includes(at) ? withMark(message, mark) : message);
}

function isMarked({ providerOptions }: { readonly providerOptions?: unknown }): boolean {
  const { anthropic, bedrock } = Object(providerOptions) as ProviderOptions;
  return (anthropic?.cacheControl ?? anthropic?.cache_control ?? bedrock?.cachePoint) !== undefined;
}

function breakpointsIn(one: unknown): number {
  const { content } = Object(one) as Partial<PromptMessage>;
  const parts = Array.isArray(content) ? content as readonly PromptPart[] : [];
  const outputs = parts.map((part) => Object((part as { readonly output?: unknown }).output));
  return [Object(one), ...parts, ...outputs].filter(isMarked).length;
}

function mayHaveMark(message: PromptMessage): boolean {
  const last = typeof message.content === "string" ? undefined : message.content.at(-1);
  return breakpointsIn(message) === 0 && last?.type !== "reasoning" && message.content.length > 0;
}

function withMark(message: PromptMessage, cacheControl: object): PromptMessage {
  const { anthropic, bedrock, ...others } = Object(message.providerOptions) as ProviderOptions;
  return {
    ...message,
    providerOptions: {
      ...others,
      anthropic: { ...anthropic, cacheControl },
      bedrock: { ...bedrock, cachePoint: { type: "default" } },
    },
  };
}

/**
 * Returns the settings of a LangChain model call with a cache breakpoint at the end of the prompt, if the model is one of
 * Anthropic's and neither settings nor messages have one.
 */
export function settingsWithBreakpoint(
  { model, modelSettings, messages }: {
    readonly model: unknown;
    readonly modelSettings?: Readonly<Record<string, unknown>>;
    readonly messages: readonly { readonly content: unknown }[];
  },
  profile: Rules,
): { readonly modelSettings?: Readonly<Record<string, unknown>> } {
  const { _defaultConfig: configured, getName } = Object(model) as {
    readonly _defaultConfig?: { readonly modelProvider?: string };
    readonly getName?: () => string;
  };
  const isAnthropic = configured?.modelProvider === "anthropic" || getName?.call(model) === "ChatAnthropic";
  const hasBreakpoints = messages.some(({ content }) =>
    Array.isArray(content) && content.some((block) => block?.cache_control !== undefined)
  );
  if (!isAnthropic || hasBreakpoints || modelSettings?.cache_control !== undefined) return {};
  return { modelSettings: { ...modelSettings, cache_control: markOf(profile) } };
}
