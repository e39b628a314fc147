import { createHash, type Hash } from "node:crypto";
import type { KeyRequest, SessionRecord, StoredDelivery, StoredDocument, StoredTotalsRow } from "./port.ts";
import { StoreError } from "./store_error.ts";

/** An item of a store's contents in transit to another store. */
export type ContentsItem =
  | { readonly type: "text"; readonly ref: string; readonly content: string }
  /** A session and its last activity in milliseconds since the epoch, to a minute. */
  | ({ readonly type: "session"; readonly touchedAtMs: number } & SessionRecord)
  /** Consecutive events of the preceding session. */
  | {
    readonly type: "events";
    readonly sessionId: string;
    readonly events: readonly { readonly type: string }[];
  }
  | { readonly type: "state"; readonly sessionId: string; readonly name: string; readonly value: unknown }
  | { readonly type: "archived"; readonly sessionId: string; readonly ref: string }
  | { readonly type: "names"; readonly sessionId: string; readonly names: readonly string[] }
  | ({ readonly type: "document" } & StoredDocument)
  /** A delivery, in order of creation. */
  | ({ readonly type: "delivery" } & StoredDelivery)
  | ({ readonly type: "totals" } & StoredTotalsRow)
  /** A claimed key. Without a response its owner counts as gone in the other store. */
  | (Required<KeyRequest> & {
    readonly type: "key";
    readonly touchedAtMs: number;
    readonly sessionId?: string;
    readonly answer?: { readonly response: unknown };
  });

/**
 * The contents of a store, with exclusive access. Order: texts; sessions as created, each with its events, state and
 * archive; names as set; the rest.
 */
export interface StoreContents {
  readonly name: string;
  isEmpty(): Promise<boolean>;
  read(): AsyncIterable<ContentsItem>;
  /** Writes items in the order of `read()` into an empty store; not visible until `commit()`. */
  write(items: AsyncIterable<ContentsItem>): Promise<void>;
  commit(): Promise<void>;
  /** Closes the store; written items that weren't committed are discarded. */
  close(): Promise<void>;
}

/** Counts and hash of contents. */
export interface ContentsSum {
  readonly counts: Readonly<
    Record<"sessions" | "events" | "texts" | "documents" | "deliveries" | "keys", number>
  >;
  /** Sum of the items' SHA-256 hashes, in hex. */
  readonly hash: string;
}

/**
 * Copies all contents into an empty store and verifies them there. A store with the same contents, as after an
 * interrupted earlier copy, is only compared.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { copyContents } from "@tare/session";
 * import { openFileContents, openStore } from "@tare/session/sqlite";
 *
 * const folder = await Deno.makeTempDir();
 * const store = await openStore(`${folder}/one.db`);
 * await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 * await store.close();
 * const [from, to] = [openFileContents(`${folder}/one.db`), openFileContents(`${folder}/two.db`)];
 * assertEquals((await copyContents(from, to)).counts.sessions, 1);
 * await Promise.all([from.close(), to.close()]);
 * ```
 *
 * @throws {StoreError} `conflict` if the other store has other contents.
 */
export async function copyContents(from: StoreContents, to: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(from.read());
  const isEmpty = await to.isEmpty();
  if (isEmpty) await to.write(items);
  else for await (const _ of items);
  const [expected, found] = [sum(), await sumContents(to)];
  if (found.hash === expected.hash) {
    if (isEmpty) await to.commit();
    return found;
  }
  const [given, there] = [expected, found].map(({ counts }) =>
    Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ")
  );
  const state = isEmpty
    ? `verification found ${there} of the ${given} written items, or others. Nothing was committed`
    : `it isn't empty and has other contents, ${there}. Copy into an empty store`;
  throw new StoreError("conflict", `Cannot copy ${from.name} to ${to.name}: ${state}.`);
}

function summing(
  items: AsyncIterable<ContentsItem>,
): {
  readonly items: AsyncIterable<ContentsItem>;
  readonly sum: () => ContentsSum;
} {
  const counts = { sessions: 0, events: 0, texts: 0, documents: 0, deliveries: 0, keys: 0 };
  let named = 0;
  let sum = 0n;
  const add = (hash: Hash) => {
    sum = BigInt.asUintN(256, sum + BigInt(`0x${hash.digest("hex")}`));
  };
  let session: Hash | undefined;
  const endSession = () => {
    if (session) add(session);
    session = undefined;
  };
  const count = (item: ContentsItem) => {
    switch (item.type) {
      case "events":
        counts.events += item.events.length;
        for (const event of item.events) session?.update(`\n${JSON.stringify(event)}`);
        return;
      case "session":
        endSession();
        session = hashOf(item, counts.sessions++);
        return;
      case "delivery":
        return add(hashOf(item, counts.deliveries++));
      case "names":
        return add(hashOf({ ...item, names: item.names.toSorted() }, named++));
      case "text":
        counts.texts++;
        break;
      case "document":
        counts.documents++;
        break;
      case "key":
        counts.keys++;
        break;
    }
    const totals = item.type === "totals" && { totals: sorted(item.totals) };
    add(hashOf({ ...item, ...totals } as ContentsItem));
  };
  const pass = async function* () {
    for await (const item of items) {
      count(item);
      yield item;
    }
    endSession();
  };
  return { items: pass(), sum: () => ({ counts, hash: sum.toString(16).padStart(64, "0") }) };
}

/**
 * Reads all contents and returns their counts and hash.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { sumContents } from "@tare/session/internal";
 * import { openFileContents, openStore } from "@tare/session/sqlite";
 *
 * const folder = await Deno.makeTempDir();
 * const store = await openStore(`${folder}/one.db`);
 * await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 * await store.close();
 * const contents = openFileContents(`${folder}/one.db`);
 * assertEquals((await sumContents(contents)).counts.sessions, 1);
 * await contents.close();
 * ```
 *
 * @throws {StoreError} if an item is damaged.
 */
export async function sumContents(contents: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(contents.read());
  for await (const _ of items);
  return sum();
}

/** Returns a hash of a position and an item, independent of field order. */
function hashOf(item: ContentsItem, position?: number): Hash {
  return createHash("sha256").update(JSON.stringify([position, sorted(item)]));
}

function sorted(fields: object): unknown {
  return Object.entries(fields).filter(([, value]) => value !== undefined)
    .sort(([one], [other]) => one < other ? -1 : 1);
}
