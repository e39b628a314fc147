import { createHash } from "node:crypto";
import { bytesFromText } from "@tare/prune/internal";
import { columnText, documentJson, jsonText, plainRecord } from "../json_text.ts";
import type { StoreRecord } from "../port.ts";
import type { Statement } from "../copied_tables.ts";
import { fewAtOnce, type SqlValue } from "../queries.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { notAskedError, StoreError } from "../store_error.ts";
import { packText } from "../texts.ts";

/** A text as the archive holds it: here, or elsewhere. */
export interface StoredText {
  readonly sha256: Uint8Array;
  /** How many it has, compressed. */
  readonly bytes: number;
  /** These bytes. Absent: they are elsewhere. */
  readonly zstd?: Uint8Array<ArrayBuffer>;
  /** The object of an object store that has them. Absent, without the bytes: a session has the text already. */
  readonly object?: string;
}

/** Returns a text, compressed. */
export function archivedText(content: string): Required<Omit<StoredText, "object">> {
  const zstd = packText(content);
  const sha256 = createHash("sha256").update(bytesFromText(content)).digest();
  return { sha256, bytes: zstd.length, zstd };
}

/** A session that an opening holds, as it is written to. */
export class HeldPlace {
  readonly fence: number;
  #commits: number;

  constructor(fence: number, commits: number) {
    this.fence = fence;
    this.#commits = commits;
  }

  /** How many commits there were of it. */
  get commits(): number {
    return this.#commits;
  }

  /** There was one more, or as many as the database says. */
  committed(commits: number = this.#commits + 1): void {
    this.#commits = commits;
  }
}

/** Who writes, for the fence. */
export interface Writer {
  readonly server: string;
  /** Nothing of a session that it doesn't hold. */
  readonly placeOf: (sessionId: string) => HeldPlace | undefined;
}

/** Never that of a hold, which counts from 1. */
const NO_FENCE = -1;

/** A statement that calls a function for each of several things, in their order, and does all or none. */
export class CallList {
  readonly #calls: string[] = [];
  readonly #values: SqlValue[] = [];
  readonly #places = new Map<string, string>();
  readonly #locked = new Set<string>();
  readonly #once = new Set<string>();
  readonly #written: HeldPlace[] = [];
  readonly #writer: Writer;
  readonly #commitId: string;
  readonly #nowMs: number;

  constructor(writer: Writer, { commitId, nowMs }: { readonly commitId: string; readonly nowMs: number }) {
    this.#writer = writer;
    this.#commitId = commitId;
    this.#nowMs = Math.floor(nowMs);
  }

  /** Adds a call. Its arguments are SQL. */
  call(name: string, ...args: readonly string[]): void {
    this.#calls.push(`tare.${name}(${args.join()})`);
  }

  /** A value, as the SQL that stands for it. */
  value(value: SqlValue, type = "text"): string {
    this.#values.push(value);
    return `$${this.#values.length}::${type}`;
  }

  /** A value that several calls have. */
  shared(name: string, value: SqlValue, type = "text"): string {
    const place = this.#places.get(name) ?? this.value(value, type);
    this.#places.set(name, place);
    return place;
  }

  commitId(): string {
    return this.shared("commit", this.#commitId, "uuid");
  }

  /** When it is written. */
  now(): string {
    return this.shared("now", this.#nowMs, "bigint");
  }

  /** The id for something that is done once: whoever finds it there a second time hasn't sent it twice. */
  commitIdOnce(name: string): string {
    const isFirst = !this.#once.has(name);
    this.#once.add(name);
    return isFirst ? this.commitId() : "gen_random_uuid()";
  }

  server(): string {
    return this.shared("server", this.#writer.server);
  }

  /** A new session is its maker's until the end of the commit. */
  made(sessionId: string): void {
    this.#locked.add(sessionId);
  }

  /** Holds a session for this commit, behind what makes it. */
  holdBriefly(sessionId: string, fence: number): void {
    const id = this.shared(`session ${sessionId}`, columnText(sessionId));
    this.call("hold_briefly", id, this.value(fence, "bigint"), this.commitId(), this.now());
    this.#locked.add(sessionId);
  }

  /** The first argument of what writes to a session, which is locked by the first such call. */
  head(sessionId: string): string {
    const isLocked = this.#locked.has(sessionId);
    this.#locked.add(sessionId);
    const id = this.shared(`session ${sessionId}`, columnText(sessionId));
    const write = (...hold: readonly string[]) =>
      `ROW(${[id, ...hold, this.commitId(), this.now()].join()})::tare.write`;
    if (isLocked) return write("NULL", "NULL", "NULL");
    const place = this.#writer.placeOf(sessionId);
    if (place) this.#written.push(place);
    const [fence, commits] = [place?.fence ?? NO_FENCE, place?.commits ?? 0];
    return write(this.server(), this.value(fence, "bigint"), this.value(commits, "bigint"));
  }

  /** Counts the commit, once it was done. */
  wasDone(): void {
    for (const place of this.#written) place.committed();
  }

  command(): Statement {
    // Not as columns, of which there may be only so many.
    return { sql: `SELECT ARRAY[${this.#calls.join()}]::bigint[]`, values: this.#values };
  }
}

/** Adds what writes a record; of `texts` it is known how they are stored. */
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
      return calls.made(id);
    }
    case "events": {
      const { sessionId, after, events } = record;
      // What JSON can't hold is to be named one by one.
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
    case "sums": {
      const columns = [
        record.added.map(({ day }) => columnText(day)),
        record.added.map(({ about }) => columnText(about)),
        record.added.map(({ sums }) => jsonText(sums)),
      ];
      const values = columns.map((column) => calls.value(column, "text[]"));
      return calls.call("put_sums", calls.head(record.sessionId), ...values);
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
        // Without a text any document is replaced, and with an empty one none.
        replaces === undefined ? "NULL" : calls.value(replaces ? documentJson(replaces) : ""),
      );
    }
    case "no_document":
      return calls.call(
        "drop_document",
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
    case "attempted": {
      const { id, claim, value, dueInMs } = record;
      const name = [calls.value(columnText(id)), calls.value(claim, "bigint")];
      const due = dueInMs === undefined ? "NULL" : calls.value(Math.ceil(dueInMs), "bigint");
      return calls.call("put_attempt", ...name, calls.value(jsonText(value)), calls.now(), due);
    }
    case "no_deliveries":
      return calls.call("drop_deliveries", calls.value(columnText(record.receiver)));
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

/** Nobody was ever asked by a name of another form. */
function uuidOf(id: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) throw notAskedError(id);
  return id;
}

/**
 * Compressed bytes of the smallest text that goes into an object store. To put one takes 10 to 50 ms, which the request
 * waits for that relies on it, and costs what a gigabyte of a database's disk costs for 50 kB in a month, or for 5 kB in a
 * year.
 */
const MIN_BYTES = 16 * 1024;

/** Objects of texts that are gone, removed with one statement. */
const SLICE = 500;

/** For so long nothing is tried with an object store that has failed. */
const REST_MS = 30_000;

/** What {@linkcode largeTexts} needs of the store. */
interface Owner {
  readonly objects: ObjectStore;
  readonly query: <Row>(
    sql: string,
    values?: readonly (string | readonly string[] | number)[],
  ) => Promise<Row[]>;
  readonly warn: (line: string) => void;
}

/** Large texts of a database's archive, which stand in an object store. */
interface LargeTexts {
  /**
   * Puts the large texts of these records there, and gives what their rows hold. What can't be put stays in the database:
   * a request waits for an object store for some seconds at most, and no commit fails because of it.
   */
  put(records: readonly StoreRecord[]): Promise<ReadonlyMap<string, StoredText>>;
  /** Removes objects that no text has any more, and those of commits that never came. */
  sweep(): Promise<void>;
  /** Ends what it does by itself. */
  close(): Promise<void>;
}

/**
 * An object's name is written down before it is put, and struck out by the commit whose text it is. So one that a crash
 * left is known without listing a bucket, and goes an hour later: a commit that comes still later finds its name gone, and
 * begins anew. Each has a name of its own: one that is being removed is never that of a text which comes again.
 */
export function largeTexts({ objects, query, warn }: Owner): LargeTexts {
  let restsUntilMs = 0;
  let isWarned = false;
  let isOpen = true;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let sweeping: Promise<void> = Promise.resolve();
  const rests = () => performance.now() < restsUntilMs;
  /** Whether it could be done. Else the object store is left alone for a while. */
  const attempt = async (act: () => Promise<unknown>): Promise<boolean> => {
    if (rests()) return false;
    try {
      await act();
      isWarned = false;
      return true;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      restsUntilMs = performance.now() + REST_MS;
      if (!isWarned) warn(`${error.message} Until it can be used texts are kept in the database.`);
      isWarned = true;
      return false;
    }
  };
  const sweepAll = async () => {
    while (isOpen) {
      const names = (await query<{ name: string }>("SELECT tare.left_objects($1) AS name", [SLICE]))
        .map(({ name }) => name);
      if (names.length === 0) return;
      if (!await attempt(() => fewAtOnce(names, (name) => objects.delete(name)))) {
        clearTimeout(retry);
        // Who reads the database hears of it by itself if that fails.
        if (isOpen) retry = setTimeout(() => void sweep().catch(() => {}), 2 * REST_MS);
        return;
      }
      await query("DELETE FROM tare.objects WHERE name = ANY ($1)", [names]);
    }
  };
  /** One after the other: two would remove the same. */
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
      if (large.length === 0 || rests()) return texts;
      const names = large.map(([ref]) => `${ref}-${crypto.randomUUID()}`);
      const rows = await query<{ name: string | null }>("SELECT tare.name_objects($1, $2) AS name", [
        large.map(([ref]) => ref),
        names,
      ]);
      const named = new Set(rows.map(({ name }) => name));
      await fewAtOnce([...large.entries()], async ([at, [ref, text]]) => {
        const object = names[at]!;
        const { zstd, ...stored } = text;
        // A text that a session has is there for all.
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
