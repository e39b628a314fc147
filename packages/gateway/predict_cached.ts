import type { CountTokens } from "@tare/messages";
import { type Plan, type Planner, promptUnits, servedTokens, sharedTokens } from "@tare/planner";

/** Tokens of a planned prompt that the upstream's cache is expected to serve, if it is still warm. */
export function predictCached(
  { state, profile }: Planner,
  { view, promptTokens, request }: Plan,
  countTokens: CountTokens,
): number {
  const units = promptUnits(view, countTokens);
  const shared = state.sent.filter(({ model }) => model === request.model)
    .map((sent) => sharedTokens(units, sent.units));
  return servedTokens(profile, { promptTokens, sharedTokens: Math.max(0, ...shared) });
}
