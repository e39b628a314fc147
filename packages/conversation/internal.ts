/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { Coalescer } from "./coalescer.ts";
export { DocumentReader, type DocumentReaderOptions } from "./documents.ts";
export { type ArchivedText, JsonPacker, type PackedJson, type UnpackedJson } from "./store/packed_json.ts";
export { isConflict } from "./store/store_error.ts";
export { expiryClock } from "./expiry_clock.ts";
export { pingUsdOfToday } from "./ping_cost.ts";
