import { createHash } from "node:crypto";
import { bytesFromText } from "@tare/prune/internal";
import { columnText, documentJson, jsonText, plainRecord } from "../json_text.ts";
import type { StoreRecord } from "../port.ts";
import type { Statement } from "../copied_tables.ts";
import { fewAtOnce, type SqlValue } from "../queries.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { notRequestedError, StoreError } from "../store_error.ts";
import { packText } from "../texts.ts";

export interface StoredText {
  readonly sha256: Uint8Array;
  readonly bytes: number;
  /** Compressed bytes. Absent: they are in an object. */
  readonly zstd?: Uint8Array<ArrayBuffer>;
  /** Name of its object. Absent, without bytes: the text is already stored. */
  readonly object?: string;
}

export function archivedText(content: string): Required<Omit<StoredText, "object">> {
  const zstd = packText(content);
  const sha256 = createHash("sha256").update(bytesFromText(content)).digest();
  return { sha256, bytes: zstd.length, zstd };
}

export class HoldPosition {
  readonly fence: number;
  #commits: number;

  constructor(fence: number, commits: number) {
    this.fence = fence;
    this.#commits = commits;
  }

  get commits(): number {
    return this.#commits;
  }

  committed(commits: number = this.#commits + 1): void {
    this.#commits = commits;
  }
}

/** The opening that writes, for fencing. */
export interface Writer {
  readonly server: string;
  readonly positionOf: (sessionId: string) => HoldPosition | undefined;
}

const NO_FENCE = -1;

export class CallList {
  readonly #calls: string[] = [];
  readonly #values: SqlValue[] = [];
  readonly #places = new Map<string, string>();
  readonly #locked = new Set<string>();
  readonly #once = new Set<string>();
  readonly #written: HoldPosition[] = [];
  readonly #writer: Writer;
  readonly #commitId: string;
  readonly #nowMs: number;

  constructor(writer: Writer, { commitId, nowMs }: { readonly commitId: string; readonly nowMs: number }) {
    this.#writer = writer;
    this.#commitId = commitId;
    this.#nowMs = Math.floor(nowMs);
  }

  call(name: string, ...args: readonly string[]): void {
    this.#calls.push(`tare.${name}(${args.join()})`);
  }

  value(value: SqlValue, type = "text"): string {
    this.#values.push(value);
    return `$${this.#values.length}::${type}`;
  }

  shared(name: string, value: SqlValue, type = "text"): string {
    const place = this.#places.get(name) ?? this.value(value, type);
    this.#places.set(name, place);
    return place;
  }

  commitId(): string {
    return this.shared("commit", this.#commitId, "uuid");
  }

  now(): string {
    return this.shared("now", this.#nowMs, "bigint");
  }

  /** A commit whose id is found was resent. */
  commitIdOnce(name: string): string {
    const isFirst = !this.#once.has(name);
    this.#once.add(name);
    return isFirst ? this.commitId() : "gen_random_uuid()";
  }

  server(): string {
    return this.shared("server", this.#writer.server);
  }

  created(sessionId: string): void {
    this.#locked.add(sessionId);
  }

  holdForCommit(sessionId: string, fence: number): void {
    const id = this.shared(`session ${sessionId}`, columnText(sessionId));
    this.call("hold_for_commit", id, this.value(fence, "bigint"), this.commitId(), this.now());
    this.#locked.add(sessionId);
  }

  /** Returns the first argument of writes to a session; the first such call locks it. */
  head(sessionId: string): string {
    const isLocked = this.#locked.has(sessionId);
    this.#locked.add(sessionId);
    const id = this.shared(`session ${sessionId}`, columnText(sessionId));
    const write = (...hold: readonly string[]) =>
      `ROW(${[id, ...hold, this.commitId(), this.now()].join()})::tare.write`;
    if (isLocked) return write("NULL", "NULL", "NULL");
    const place = this.#writer.positionOf(sessionId);
    if (place) this.#written.push(place);
    const [fence, commits] = [place?.fence ?? NO_FENCE, place?.commits ?? 0];
    return write(this.server(), this.value(fence, "bigint"), this.value(commits, "bigint"));
  }

  committed(): void {
    for (const place of this.#written) place.committed();
  }

  command(): Statement {
    // Not as columns, whose number is limited.
    return { sql: `SELECT ARRAY[${this.#calls.join()}]::bigint[]`, values: this.#values };
  }
}

/** Adds the calls that write a record. `texts` has the rows of its texts. */
export function addRecord(
  calls: CallList,
  record: StoreRecord,
  texts: ReadonlyMap<string, StoredText> = new Map(),
): void {
  const optional = (name: string | undefined) => name === undefined ? "NULL" : calls.value(columnText(name));
  switch (record.type) {
    case "session": {
      const { id, kind, by, parent, archiveOf } = record;
      const json = calls.value(jsonText(plainRecord(record)));
      const place = calls.shared(`session ${id}`, columnText(id));
      const once = calls.commitIdOnce(place);
      calls.call(
        ...["put_session", place, calls.value(kind), optional(by), json] as const,
        ...[optional(parent), optional(archiveOf), calls.now(), once],
      );
      return calls.created(id);
    }
    case "events": {
      const { sessionId, after, events } = record;
      // Values that JSON can't represent must be named individually.
      const json = `[${events.map(jsonText).join()}]`;
      const types = [...new Set(events.map(({ type }) => columnText(type)))];
      calls.call(
        "put_events",
        calls.head(sessionId),
        calls.value(after, "bigint"),
        calls.value(events.length, "integer"),
        calls.value(types, "text[]"),
        calls.value(json),
      );
      return;
    }
    case "state": {
      const { sessionId, name, value } = record;
      const json = jsonText(value);
      return calls.call(
        "put_state",
        calls.head(sessionId),
        calls.value(columnText(name)),
        calls.value(json),
      );
    }
    case "names": {
      const names = calls.value(record.names.map(columnText), "text[]");
      return calls.call("put_names", calls.head(record.sessionId), names);
    }
    case "totals": {
      const columns = [
        record.added.map(({ day }) => columnText(day)),
        record.added.map(({ about }) => columnText(about)),
        record.added.map(({ totals }) => jsonText(totals)),
      ];
      const values = columns.map((column) => calls.value(column, "text[]"));
      return calls.call("put_totals", calls.head(record.sessionId), ...values);
    }
    case "archive": {
      const text: StoredText = texts.get(record.ref) ?? archivedText(record.content);
      const { sha256, bytes, zstd, object } = text;
      return calls.call(
        "put_text",
        calls.head(record.sessionId),
        calls.value(record.ref),
        calls.value(sha256, "bytea"),
        calls.value(bytes, "integer"),
        zstd ? calls.value(zstd, "bytea") : "NULL",
        optional(object),
      );
    }
    case "document": {
      const { kind, id, sessionId, replaces } = record;
      const place = sessionId === undefined
        ? "NULL"
        : calls.shared(`session ${sessionId}`, columnText(sessionId));
      const name = [calls.value(columnText(kind)), calls.value(columnText(id))];
      return calls.call(
        "put_document",
        place,
        ...name,
        calls.value(documentJson(record)),
        // NULL replaces any document, an empty text none.
        replaces === undefined ? "NULL" : calls.value(replaces ? documentJson(replaces) : ""),
      );
    }
    case "delete_document":
      return calls.call(
        "delete_document",
        calls.value(columnText(record.kind)),
        calls.value(columnText(record.id)),
      );
    case "response": {
      const { scope, key, sessionId, response } = record;
      const name = [calls.value(columnText(scope)), calls.value(columnText(key))];
      const json = calls.value(jsonText(response));
      const once = calls.commitIdOnce(`response ${JSON.stringify([scope, key])}`);
      return calls.call("put_response", ...name, optional(sessionId), calls.now(), once, json);
    }
    case "delivery": {
      const { id, receiver, sessionId, value, dueInMs } = record;
      const place = sessionId === undefined
        ? "NULL"
        : calls.shared(`session ${sessionId}`, columnText(sessionId));
      const name = [calls.value(columnText(id)), calls.value(columnText(receiver))];
      const due = calls.value(Math.ceil(dueInMs), "bigint");
      return calls.call("put_delivery", place, ...name, calls.value(jsonText(value)), calls.now(), due);
    }
    case "delivery_attempt": {
      const { id, claim, value, dueInMs } = record;
      const name = [calls.value(columnText(id)), calls.value(claim, "bigint")];
      const due = dueInMs === undefined ? "NULL" : calls.value(Math.ceil(dueInMs), "bigint");
      return calls.call("put_delivery_attempt", ...name, calls.value(jsonText(value)), calls.now(), due);
    }
    case "delete_deliveries":
      return calls.call("delete_deliveries", calls.value(columnText(record.receiver)));
    case "answer": {
      const id = calls.value(uuidOf(record.requestId), "uuid");
      return calls.call(
        "put_answer",
        id,
        calls.server(),
        calls.commitId(),
        calls.value(jsonText(record.answer)),
      );
    }
  }
}

function uuidOf(id: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw notRequestedError(id);
  return id;
}

/**
 * Smallest compressed size for the object store, in bytes: a put takes 10 to 50 ms and costs as much as a month of
 * database disk for 50 kB.
 */
const MIN_BYTES = 16 * 1024;

const SLICE = 500;

/** Pause after a failure of the object store, in milliseconds. */
const PAUSE_MS = 30_000;

interface Owner {
  readonly objects: ObjectStore;
  readonly query: <Row>(
    sql: string,
    values?: readonly (string | readonly string[] | number)[],
  ) => Promise<Row[]>;
  readonly warn: (line: string) => void;
}

interface LargeTexts {
  /** Puts the large texts of records and returns their rows. The database is the fallback after some seconds. */
  put(records: readonly StoreRecord[]): Promise<ReadonlyMap<string, StoredText>>;
  sweep(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Returns the large texts of a database. An object's name is recorded before the put and removed by the commit of its
 * text, so that names left by crashes are deleted after an hour; a later commit then starts again. Names are unique: a
 * returning text never gets an object being deleted.
 */
export function largeTexts({ objects, query, warn }: Owner): LargeTexts {
  let pausedUntilMs = 0;
  let isWarned = false;
  let isOpen = true;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let sweeping: Promise<void> = Promise.resolve();
  const isPaused = () => performance.now() < pausedUntilMs;
  const attempt = async (act: () => Promise<unknown>): Promise<boolean> => {
    if (isPaused()) return false;
    try {
      await act();
      isWarned = false;
      return true;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      pausedUntilMs = performance.now() + PAUSE_MS;
      if (!isWarned) warn(`${error.message} Until it works again, texts are stored in the database.`);
      isWarned = true;
      return false;
    }
  };
  const sweepAll = async () => {
    while (isOpen) {
      const names = (await query<{ name: string }>("SELECT tare.unreferenced_objects($1) AS name", [SLICE]))
        .map(({ name }) => name);
      if (names.length === 0) return;
      if (!await attempt(() => fewAtOnce(names, (name) => objects.delete(name)))) {
        clearTimeout(retry);
        // Callers see failures of the database themselves.
        if (isOpen) retry = setTimeout(() => void sweep().catch(() => {}), 2 * PAUSE_MS);
        return;
      }
      await query("DELETE FROM tare.objects WHERE name = ANY ($1)", [names]);
    }
  };
  /** Sequential: concurrent sweeps would delete the same objects. */
  const sweep = () => sweeping = sweeping.catch(() => {}).then(sweepAll);
  return {
    async put(records) {
      const compressed = new Map<string, ReturnType<typeof archivedText>>();
      for (const record of records) {
        if (record.type !== "archive" || record.content.length < MIN_BYTES) continue;
        if (!compressed.has(record.ref)) compressed.set(record.ref, archivedText(record.content));
      }
      const texts = new Map<string, StoredText>(compressed);
      const large = Array.from(compressed).filter(([, { bytes }]) => bytes >= MIN_BYTES);
      if (large.length === 0 || isPaused()) return texts;
      const names = large.map(([ref]) => `${ref}-${crypto.randomUUID()}`);
      const rows = await query<{ name: string | null }>("SELECT tare.register_objects($1, $2) AS name", [
        large.map(([ref]) => ref),
        names,
      ]);
      const named = new Set(rows.map(({ name }) => name));
      await fewAtOnce([...large.entries()], async ([at, [ref, text]]) => {
        const object = names[at]!;
        const { zstd, ...stored } = text;
        if (!named.has(object)) texts.set(ref, stored);
        else if (await attempt(() => objects.put(object, zstd))) texts.set(ref, { ...stored, object });
      });
      return texts;
    },
    sweep,
    async close() {
      isOpen = false;
      clearTimeout(retry);
      await sweeping.catch(() => {});
    },
  };
}
