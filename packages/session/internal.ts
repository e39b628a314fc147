/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { Coalescer } from "./coalescer.ts";
export { DocumentReader, type DocumentReaderOptions } from "./documents.ts";
export { type ContentsItem, sumContents } from "./store/contents.ts";
export {
  applyPatch,
  type ArchivedText,
  diffJson,
  JsonPacker,
  type JsonPatch,
  type NextState,
  type PackedJson,
  SessionRecords,
  stateRecords,
  type StateUpdate,
  type StoredState,
  type UnpackedJson,
  type WholeValue,
} from "./store/session_records.ts";
export { isConflict } from "./store/store_error.ts";
export { hashPrefixes } from "./hash_prefixes.ts";
export { expiryClock } from "./expiry_clock.ts";
export { isFenced, type OwnedEvents, type OwnedSession, Ownership, Queue, type Tenure } from "./ownership.ts";
export {
  type CacheKeyOptions,
  type CallPlanner,
  type DatedRewrite,
  type ForkPlace,
  type GlimpseOptions,
  type HistoryNow,
  type PinChange,
  type RecordOptions,
  Session,
  type SessionCall,
  type SessionInit,
  type SessionState,
  type StoredCopy,
} from "./session.ts";
export {
  type HeldOptions,
  HeldSessions,
  OpenSession,
  type RegisteredSession,
  type ReportScope,
  type SessionCalls,
  type SessionChange,
  type SessionKind,
  SessionRegistry,
  type UnsummedSessions,
} from "./registry.ts";
export type {
  ConnectionMetrics,
  DeliveryClaim,
  DeliveryLimits,
  DeliveryListing,
  DeliveryRequest,
  EventsQuery,
  Hold,
  HolderAnswer,
  HolderRequest,
  HoldingCommit,
  IdleQuery,
  KeyClaim,
  KeyName,
  KeyRequest,
  ListedSession,
  NamedSession,
  OpeningListener,
  OpeningMetrics,
  ReceiverLimit,
  SessionLimits,
  SessionListing,
  SessionRecord,
  SessionSnapshot,
  SharedStore,
  StoreCopy,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredTotalsRow,
  StoreRecord,
  TotalsQuery,
  TypedEvent,
  WaitingSession,
} from "./store/port.ts";
export {
  type LoadedSession,
  type SessionContent,
  WriteBehind,
  type WriteBehindOptions,
  type WrittenKind,
} from "./write_behind.ts";
export type { KeepAlivePeriod, KeepAliveTarget } from "./cache_keep_alive.ts";
export { s3Address } from "./store/s3_address.ts";
