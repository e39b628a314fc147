import { createHash, type Hash } from "node:crypto";
import type { KeyRequest, SessionRecord, StoredDelivery, StoredDocument, StoredSums } from "./port.ts";
import { StoreError } from "./store_error.ts";

/** One thing that a store holds, as it is carried to another store. */
export type ContentsItem =
  /** A text that sessions have archived. */
  | { readonly type: "text"; readonly ref: string; readonly content: string }
  /** A session, and when something happened to it last, in milliseconds since the epoch, to a minute. */
  | ({ readonly type: "session"; readonly touchedAtMs: number } & SessionRecord)
  /** Some events of the session in front, behind those in front. */
  | {
    readonly type: "events";
    readonly sessionId: string;
    readonly events: readonly { readonly type: string }[];
  }
  /** A value of the session in front. */
  | { readonly type: "state"; readonly sessionId: string; readonly name: string; readonly value: unknown }
  /** A text in the archive of the session in front. */
  | { readonly type: "archived"; readonly sessionId: string; readonly ref: string }
  /** What a session can be found by. */
  | { readonly type: "names"; readonly sessionId: string; readonly names: readonly string[] }
  | ({ readonly type: "document" } & StoredDocument)
  /** A delivery, behind those that were made before. */
  | ({ readonly type: "delivery" } & StoredDelivery)
  /** What sessions have come to, those that are gone too. */
  | ({ readonly type: "sums" } & StoredSums)
  /** A key that was claimed; without an answer whoever worked on it counts as gone wherever it comes to. */
  | (Required<KeyRequest> & {
    readonly type: "key";
    readonly touchedAtMs: number;
    readonly sessionId?: string;
    readonly answer?: { readonly response: unknown };
  });

/**
 * All that a store holds, to be read and written as a whole while nobody else has it open. Texts come first; then
 * sessions, in the order in which they were made, each in front of its events, its state and its archive; then their
 * names, in the order in which they were given; then the rest.
 */
export interface StoreContents {
  /** What people may call it. */
  readonly name: string;
  /** Whether it holds nothing at all. */
  isEmpty(): Promise<boolean>;
  /** Everything that it holds, or that was written to it. */
  read(): AsyncIterable<ContentsItem>;
  /** Writes everything into a store that is empty, in the order in which it was read. Others don't see it yet. */
  write(items: AsyncIterable<ContentsItem>): Promise<void>;
  /** Lets what was written be what the store holds, all at once. */
  keep(): Promise<void>;
  /** Lets others have the store. Nothing is left of what was written and not kept. */
  close(): Promise<void>;
}

/** What a store holds, to be compared with other contents. */
export interface ContentsSum {
  /** How many there are of each, by name. */
  readonly counts: Readonly<
    Record<"sessions" | "events" | "texts" | "documents" | "deliveries" | "keys", number>
  >;
  /** Of everything: the sum of SHA-256 hashes, in hex. */
  readonly hash: string;
}

/**
 * Copies everything into a store that is empty, and reads it there again. One that holds the same already, because an
 * earlier copy was cut off behind its end, is only compared.
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
 * @throws {StoreError} `conflict` if the other store holds something else.
 */
export async function copyContents(from: StoreContents, to: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(from.read());
  const isEmpty = await to.isEmpty();
  if (isEmpty) await to.write(items);
  else for await (const _ of items);
  const [expected, found] = [sum(), await sumContents(to)];
  if (found.hash === expected.hash) {
    if (isEmpty) await to.keep();
    return found;
  }
  const [given, there] = [expected, found].map(({ counts }) =>
    Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ")
  );
  const state = isEmpty
    ? `${there} could be read there of the ${given} that were written, or others. Nothing of it was kept`
    : `that isn't empty, and holds something else, ${there}. Copy into one that holds nothing`;
  throw new StoreError("conflict", `Cannot copy ${from.name} to ${to.name}: ${state}.`);
}

/** Passes items on, and sums them up, whatever the order of those that have none. */
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
  /** Hash of the newest session, with its events. */
  let session: Hash | undefined;
  const endSession = () => {
    if (session) add(session);
    session = undefined;
  };
  const count = (item: ContentsItem) => {
    switch (item.type) {
      case "events":
        counts.events += item.events.length;
        // However many come at a time.
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
    const sums = item.type === "sums" && { sums: sorted(item.sums) };
    add(hashOf({ ...item, ...sums } as ContentsItem));
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
 * Reads everything and sums it up, to be compared with other contents.
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
 * @throws {StoreError} if something of it is damaged.
 */
export async function sumContents(contents: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(contents.read());
  for await (const _ of items);
  return sum();
}

/** Returns a hash of a position and an item, whatever the order of the item's fields. */
function hashOf(item: ContentsItem, position?: number): Hash {
  return createHash("sha256").update(JSON.stringify([position, sorted(item)]));
}

function sorted(fields: object): unknown {
  return Object.entries(fields).filter(([, value]) => value !== undefined)
    .sort(([one], [other]) => one < other ? -1 : 1);
}
