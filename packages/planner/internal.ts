/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { type CompactionHabit, compactionOf } from "./agents.ts";
export { servedTokens } from "./cache/prefix.ts";
export { fittingPins, makePin, type NewPin, type PinOptions, pinRefusals, pinsAfter } from "./edits/pin.ts";
export { isSummary } from "./edits/view.ts";
export type { RequestMade } from "./ledger/entry.ts";
export { mostOfCall } from "./ledger/call_cost.ts";
export {
  type CacheRequest,
  type CacheRouting,
  DEFAULT_PROVIDER,
  EXAMPLE_MODELS,
  MESSAGES_PROVIDER,
  type ModelProtocol,
  modelProtocolOf,
  MODELS_DATE,
  priceIn,
  profileForTtl,
  PROFILES,
  proposedModels,
  providerOf,
  readModelList,
  routeToCache,
  searchesTools,
} from "./providers.ts";
export { isPrice, type ProfileFile, readProfileFile } from "./profile_file.ts";
export {
  type About,
  type Continuation,
  type HistoryItem,
  type KnownConversation,
  Recognition,
  type RequestHistory,
  type StoredHistory,
} from "./recognition/recognition.ts";
export { WINDOW_SHARE } from "./rule/decide.ts";
export { isBuiltInWord } from "./tools_of_agents.ts";
