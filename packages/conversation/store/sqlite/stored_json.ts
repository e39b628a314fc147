import { crc32 } from "node:zlib";
import { jsonText } from "../json_text.ts";
import { corruptError } from "./file_error.ts";

/** A JSON value as it is stored. */
export interface StoredJson {
  readonly json: string;
  /** CRC-32 of `json`: SQLite itself doesn't notice when a file's bytes change. */
  readonly crc: number;
}

/** A value as it is stored. @throws {TypeError} if JSON can't hold it. */
export function toStoredJson(value: unknown): StoredJson {
  const json = jsonText(value);
  return { json, crc: crc32(json) };
}

/** The value that was stored. @throws {StoreError} `corrupt` if these are other bytes than were written. */
export function fromStoredJson({ json, crc }: StoredJson, path: string): unknown {
  if (crc32(json) !== crc) throw corruptError(path, "a record was damaged, its checksum doesn't match");
  return JSON.parse(json);
}
