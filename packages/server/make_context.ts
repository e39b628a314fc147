import { classicContext } from "./classic_context.ts";
import { plannerContext } from "./planner_context.ts";
import type { ContextOptions, SessionContext } from "./session_context.ts";

/** What decides when a prompt is rewritten. */
export type Policy = "planner" | "classic";

/** Names of the policies, the default first. */
export const POLICIES: readonly Policy[] = ["planner", "classic"];

/** The context of a session by the name of its policy. */
export function makeContext(
  options: ContextOptions & { readonly model: string; readonly policy: Policy },
): SessionContext {
  switch (options.policy) {
    case "planner":
      return plannerContext(options);
    case "classic":
      return classicContext(options);
  }
}
