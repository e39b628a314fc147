import { servedTokens } from "../cache/prefix.ts";
import { promptCost } from "../ledger/ledger.ts";
import type { Quote } from "../prompt_session.ts";
import type { Removal } from "../retention/retention.ts";
import type { CachedPrompt } from "./decide.ts";

/** Quotes a prompt as it stands, and without these removals, which stand in the order of the prompt. */
export function quotePrompt(
  removals: readonly Removal[],
  { profile, promptTokens, cachedTokens, alive }: CachedPrompt,
): Quote {
  const quoted = (promptTokens: number, cachedTokens: number): Quote["asIs"] => ({
    promptTokens,
    cachedTokens,
    warmTokenUnits: promptCost(profile, { promptTokens, cachedTokens }),
    coldTokenUnits: promptCost(profile, { promptTokens, cachedTokens: 0 }),
  });
  let removed = 0;
  for (const { tokens } of removals) removed += tokens;
  const [first] = removals;
  const kept = first
    ? Math.min(cachedTokens, servedTokens(profile, { promptTokens, sharedTokens: first.start }))
    : cachedTokens;
  return {
    asIs: quoted(Math.round(promptTokens), Math.round(cachedTokens)),
    rewritten: quoted(Math.max(0, Math.round(promptTokens - removed)), kept),
    alive,
  };
}
