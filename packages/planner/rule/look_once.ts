import { countRequestTokens, type CountTokens, type ToolDefinition } from "@tare/messages";
import { servedTokens } from "../cache/prefix_cache.ts";
import { Layout } from "../edits/layout.ts";
import { compactedTools } from "../edits/view.ts";
import { savedTokens } from "../ledger/ledger.ts";
import type { Profile } from "../providers.ts";
import type { Plan, PlanRequest } from "./plan.ts";

/** What a request sends that isn't a turn, and how much of it a warm cache serves. Tokens are counted here. */
export interface OneShot extends Pick<Plan, "view" | "promptTokens" | "saved"> {
  readonly cachedTokens: number;
}

/** What {@linkcode lookOnce} goes by. */
export interface LookOnceOptions {
  /** What the model saw last. It is copied, not changed. */
  readonly layout: Layout;
  readonly profile: Profile;
  readonly countTokens: CountTokens;
  /** Tokens with which a request that was sent starts like what the model sees, with these tools. */
  readonly sharedWith: (tools: readonly ToolDefinition[]) => number;
}

/** The view that the model had last and what is new of the history. Nothing is bought for it. */
export function lookOnce(
  { messages: history, tools: full, edits, truncated = [] }: PlanRequest,
  { layout: last, profile, countTokens, sharedWith }: LookOnceOptions,
): OneShot {
  const layout = new Layout(countTokens, last);
  const kept = layout.update(history, edits);
  const tools = compactedTools(full, edits);
  const toolTokens = countRequestTokens({ messages: [], tools }, countTokens);
  const toolsBefore = countRequestTokens({ messages: [], tools: full }, countTokens);
  const promptTokens = toolTokens + layout.tokens;
  const all = toolsBefore + layout.fullTokens - promptTokens;
  const sharedTokens = Math.min(sharedWith(tools), toolTokens + kept);
  return {
    view: { ...layout.placed, tools },
    promptTokens,
    saved: savedTokens(layout, { truncated, all, schemas: toolsBefore - toolTokens }),
    cachedTokens: servedTokens(profile, { promptTokens, sharedTokens }),
  };
}
