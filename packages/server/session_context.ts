import type { ContextHook } from "@tare/loop";
import type { Usage } from "@tare/messages";

/** Decides what the model sees of one session, call by call. */
export interface SessionContext {
  /** The loop's hook. */
  readonly view: ContextHook;
  /** Told of every request that succeeded, with its own usage (not summed over retries). */
  readonly succeeded: (usage: Usage) => void;
}
