/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { Coalescer } from "./coalescer.ts";
export { DocumentReader } from "./documents.ts";
export { sumContents } from "./store/contents.ts";
export { JsonPacker } from "./store/packed_json.ts";
export {
  type NextState,
  type StateChange,
  stateRecords,
  StateWriter,
  type StoredState,
} from "./stored_state.ts";
export { isConflict } from "./store/store_error.ts";
export { expiryClock } from "./expiry_clock.ts";
export { type PinChange, Session, type SessionState } from "./session.ts";
export {
  HeldSessions,
  OpenSession,
  type SessionCalls,
  type SessionChange,
  type SessionKind,
  SessionRegistry,
  type UnsummedSessions,
} from "./registry.ts";
export type {
  Hold,
  HolderRequest,
  ListedSession,
  SessionRecord,
  SharedStore,
  Sighting,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredSums,
  StoreRecord,
} from "./store/port.ts";
export type { KeptWarm, Pingable } from "./warmth.ts";
export { s3Address } from "./store/s3_address.ts";
