/**
 * Replays recorded sessions against a simulated prefix cache: call by call under a policy that determines each prompt
 * ({@linkcode play}), or with the recorded prompts and cache keep-alive during pauses ({@linkcode playSession}). Used by
 * benchmarks and `tare history`.
 *
 * @module
 */
export {
  type CallPolicy,
  type CallPolicyOptions,
  compaction,
  type MakePolicy,
  type PlannerOptions,
  plannerPolicy,
  type PolicyCall,
  type PolicyView,
  resend,
} from "./policy.ts";
export { isRefused } from "./is_refused.ts";
export { partsOf, partsShownBy, wantedBy } from "./needs.ts";
export { outputPrice, windowFor } from "./assumptions.ts";
export { pairCost, play, type Played, type PlayedPair, type PlayOptions, playPair } from "./play.ts";
export { readRecording, type RecordedCall, type RecordedUsage, type Recording } from "./recording.ts";
export { repair, REPAIR_TOKENS } from "./repair.ts";
export { type NamesShown } from "./sight.ts";
export { HourCache, type Marks } from "../warmth/hour_cache.ts";
export { type PlayedSession, playSession, type WarmOptions } from "../warmth/play_session.ts";
export { type TimedSession, timedSession } from "../warmth/timed_session.ts";
export { ClientTrial, clockRule, type IdleCall, type Rule, type Warmer } from "../warmth/warmer.ts";
