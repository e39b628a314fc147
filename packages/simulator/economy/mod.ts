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
export { partsOf, visibleParts, wantedBy } from "./needs.ts";
export { outputPrice, windowFor } from "./assumptions.ts";
export { pairCost, play, type Played, type PlayedPair, type PlayOptions, playPair } from "./play.ts";
export { readRecording, type RecordedCall, type RecordedUsage, type Recording } from "./recording.ts";
export { REFETCH_TOKENS, repair } from "./repair.ts";
export { type VisibleNames } from "./sight.ts";
export { type Breakpoints, HourCache } from "../keep_alive/hour_cache.ts";
export { type PlayedSession, playSession, type WarmOptions } from "../keep_alive/play_session.ts";
export { type TimedSession, timedSession } from "../keep_alive/timed_session.ts";
export { ClientTrial, clockRule, type IdleCall, type Rule, type Warmer } from "../keep_alive/warmer.ts";
