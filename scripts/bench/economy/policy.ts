import type { CountTokens, Usage } from "@tare/messages";
import type { Conversation, Profile } from "@tare/planner";
import type { Recording } from "./recording.ts";

/** What a policy knows when a call is about to be made: the session up to there, and the time. */
export interface PolicyCall extends Conversation {
  readonly nowMs: number;
}

/** Decides what each call of one session sends. */
export interface Policy {
  view(call: PolicyCall): Conversation | Promise<Conversation>;
  /** Told what the provider reported. */
  sent?(usage: Usage): void;
}

/** What a policy is handed for one session. All but the clairvoyant ones use only what a call tells them, and which results are errors. */
export interface PolicyOptions {
  readonly recording: Recording;
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly countTokens: CountTokens;
}

/** Makes a policy for one session. */
export type MakePolicy = (options: PolicyOptions) => Policy | Promise<Policy>;
