import type { ApprovalRule } from "./rules.ts";

/** What has to be asked for before it runs, and what happens then. */
export interface ApprovalOptions {
  /** Rules for all sessions; each may have its own besides, and the stricter wins. Default: none. */
  readonly rules?: readonly ApprovalRule[];
  /** The folder from which the rules' paths count. Default: the root. */
  readonly workspace?: string;
  /** What happens to calls that have to be asked for where nobody can be. Default: `deny`. */
  readonly unattended?: "deny" | "allow";
  /** After which time without an answer it is no, in milliseconds. Default: a day. */
  readonly answerWithinMs?: number;
  /** Calls back after so many milliseconds, until the function that it returns is called. Default: the real time. */
  readonly after?: (ms: number, work: () => void) => () => void;
}

/** The time for an answer where nothing is said of it, in milliseconds. */
export const ANSWER_WITHIN_MS: number = 24 * 60 * 60_000;
