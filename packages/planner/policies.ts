/**
 * The classic policy with fixed triggers, and the choice between both policies. A separate entry point, so
 * that programs with the planner alone don't load it.
 *
 * @module
 */
import { classicSession, type ClassicTriggers } from "./classic/classic_session.ts";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { NO_MECHANISMS, type PromptSession, type PromptSessionOptions } from "./prompt_session.ts";
import { plannerSession } from "./session.ts";

export type { ClassicTriggers };

/** Options of a policy. */
export interface PolicyOptions extends
  Pick<
    PromptSessionOptions,
    "mechanisms" | "evict" | "truncateTokens" | "alwaysFull"
  > {
  /** Policy that decides when a prompt is rewritten. Default: `planner`. */
  readonly policy?: "planner" | "classic" | undefined;
  /** Triggers of the classic policy. Default: those of {@linkcode ClassicTriggers}. */
  readonly triggers?: ClassicTriggers | undefined;
}

/** The classic session checks their ranges. */
const TRIGGERS: NeededOptions<ClassicTriggers> = {
  "historyBudgetTokens?": "value",
  "protectTokens?": "value",
  "minBytes?": "value",
  "pruneAt?": "value",
  "summarizeAt?": "value",
  "coldAfterMs?": "value",
};

/**
 * Returns a prompt session of this policy.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 * import { policySession } from "@tare/planner/policies";
 * import { memoryArchive } from "@tare/prune";
 *
 * const options = { profile: profileNamed("openai"), archive: memoryArchive(), countTokens: estimateTokens };
 * const session = policySession({ ...options, policy: "classic", triggers: { pruneAt: 0.7 } });
 * const messages = [{ role: "user", content: "Hello." }] as const;
 * const { rewrites } = await session.view({ messages, tools: [] }, { nowMs: Date.now() });
 * assertEquals(rewrites, []);
 * ```
 *
 * @throws {RangeError} if a trigger is out of its range.
 */
export function policySession(
  options: PromptSessionOptions & PolicyOptions,
): PromptSession {
  const { policy = "planner", triggers = {}, ...rest } = Object(options) as typeof options;
  if (policy !== "planner" && policy !== "classic") {
    throw new TypeError(
      `Cannot run policySession(): options.policy is ${policy}. It must be planner or classic.`,
    );
  }
  checkGiven("policySession()", { "options.triggers": triggers }, { "options.triggers": TRIGGERS });
  if (policy === "planner") return plannerSession(rest);
  // It has no ledger for a dry run.
  return classicSession({ ...rest, triggers, ...(rest.dryRun && { mechanisms: NO_MECHANISMS }) });
}
