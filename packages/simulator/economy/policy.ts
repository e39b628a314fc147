import type { CountTokens, Usage } from "@tare/messages";
import type { History, Profile } from "@tare/planner";
import type { Warmer } from "../warmth/warmer.ts";
import type { Recording } from "./recording.ts";

/** What a policy knows when a call is about to be made: the session up to there, and the time. */
export interface PolicyCall extends History {
  readonly nowMs: number;
}

/** What a call sends. */
export interface PolicyView extends History {
  /** A request that the policy made for itself before, such as for a summary. It is paid like any other. */
  readonly aside?: History & { readonly outputTokens: number };
}

/** Decides what each call of one session sends. */
export interface CallPolicy {
  view(call: PolicyCall): PolicyView | Promise<PolicyView>;
  /** Told what the provider reported of the view. */
  sent?(usage: Usage): void;
  /** What keeps the session warm while nothing is asked for. Default: nothing. */
  readonly warmer?: Pick<Warmer, "next" | "pinged">;
}

/** What a policy is handed for one session. */
export interface CallPolicyOptions {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
  /** The whole session, for the clairvoyant alone. */
  readonly recording: Recording;
}

/** Makes a policy for one session. */
export type MakePolicy = (options: CallPolicyOptions) => CallPolicy | Promise<CallPolicy>;

/** Sends everything. */
export function resend(): CallPolicy {
  return { view: ({ messages, tools }) => ({ messages, tools }) };
}
