/**
 * The prompt session by fixed triggers, and whichever of the two policies goes by a name. An entry point of its own, so
 * that who wants the planner alone doesn't carry the other.
 *
 * @module
 */
import { classicSession, type ClassicTriggers } from "./classic/classic_session.ts";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { NO_MECHANISMS, type PromptSession, type PromptSessionOptions } from "./prompt_session.ts";
import { plannerSession } from "./session.ts";

export type { ClassicTriggers };

/** By what rules prompts are kept small: what whoever makes sessions is told of them, beside their provider. */
export interface PolicyOptions extends
  Pick<
    PromptSessionOptions,
    "mechanisms" | "forget" | "truncateTokens" | "alwaysFull"
  > {
  /** What decides when a prompt is rewritten. Default: `planner`. */
  readonly policy?: "planner" | "classic" | undefined;
  /** When the classic mechanisms act; the planner has no triggers. */
  readonly triggers?: ClassicTriggers | undefined;
}

/** Their ranges are checked by the session that goes by them. */
const TRIGGERS: NeededOptions<ClassicTriggers> = {
  "historyBudgetTokens?": "value",
  "protectTokens?": "value",
  "minBytes?": "value",
  "pruneAt?": "value",
  "summariseAt?": "value",
  "coldAfterMs?": "value",
};

/**
 * A prompt session by the policy of this name: a `plannerSession`, or the same by fixed triggers.
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
      `Cannot run policySession(): options.policy is ${policy}; it must be one of planner, classic`,
    );
  }
  checkGiven("policySession()", { "options.triggers": triggers }, { "options.triggers": TRIGGERS });
  if (policy === "planner") return plannerSession(rest);
  // It keeps no ledger that could report what it would have done.
  return classicSession({ ...rest, triggers, ...(rest.observe && { mechanisms: NO_MECHANISMS }) });
}
