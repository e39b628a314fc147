/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 * @module
 */
export { checkGiven, type Needed, type NeededKind, type NeededOptions } from "./check_given.ts";
export { CallPairing, setHash } from "./message.ts";
export { countMessageTokens, countToolTokens, MESSAGE_OVERHEAD_TOKENS } from "./count_tokens.ts";
export { exitCodeIn } from "./exit_code.ts";
export { holdsMedia, isMedia } from "./media.ts";
export {
  CALL_TOOL_NAME,
  callIds,
  type CallPair,
  describeCall,
  firstWords,
  freeCallId,
  hashBytes,
  hashPiece,
  hashText,
  meantCall,
  pairCalls,
  sameData,
  toolResultMessage,
  transcribe,
  userWords,
} from "./message.ts";
export { addUsage } from "./model.ts";
export { countingImages, imageHead } from "./image.ts";
export { nearestName } from "./nearest_name.ts";
export { PLAN_TOOL_NAME, planAfter, type WorkPlan } from "./plan.ts";
export { sliceText } from "./slice_text.ts";
export { reasonOf, untilAborted } from "./reason_of.ts";
export type { NestedCalls } from "./tool.ts";
