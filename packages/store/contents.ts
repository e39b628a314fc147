import { createHash } from "node:crypto";
import type { IdempotencyKey, SessionRecord, StorableEvent, StoredDocument } from "./port.ts";
import { StoreError } from "./store_error.ts";

/** One thing that a store holds, as it is carried to another store. */
export type ContentsItem =
  /** A text that sessions have archived. */
  | { readonly type: "text"; readonly ref: string; readonly content: string }
  /** A session, and when something happened to it last, in milliseconds since the epoch, to a minute. */
  | ({ readonly type: "session"; readonly touchedAtMs: number } & SessionRecord)
  /** Some events of the session in front, behind those in front. */
  | { readonly type: "events"; readonly sessionId: string; readonly events: readonly StorableEvent[] }
  /** A value of the session in front. */
  | { readonly type: "state"; readonly sessionId: string; readonly name: string; readonly value: unknown }
  /** A text in the archive of the session in front. */
  | { readonly type: "archived"; readonly sessionId: string; readonly ref: string }
  | ({ readonly type: "document" } & StoredDocument)
  /** A key that was claimed; without an answer it counts as interrupted wherever it comes to. */
  | ({
    readonly type: "key";
    readonly bodyHash: string;
    readonly touchedAtMs: number;
    readonly sessionId?: string;
    readonly answer?: { readonly response: unknown };
  } & IdempotencyKey);

/**
 * All that a store holds, to be read and written as a whole while nobody else has it open. The order is that of their
 * bytes: texts by reference; sessions as they were made, each with its events, its state by name and its archive by
 * reference; documents by kind and id; keys by scope and key.
 */
export interface StoreContents {
  /** What people may call it. */
  readonly name: string;
  /** Whether it holds nothing at all. */
  isEmpty(): Promise<boolean>;
  /** Everything, in order. */
  read(): AsyncIterable<ContentsItem>;
  /** Writes everything in the order in which it was read, or nothing, into a store that is empty. */
  write(items: AsyncIterable<ContentsItem>): Promise<void>;
  /** Lets others have the store. */
  close(): Promise<void>;
}

/** What can be compared of contents. */
export interface ContentsSum {
  /** How many there are of each, by name. */
  readonly counts: Readonly<Record<"sessions" | "events" | "texts" | "documents" | "keys", number>>;
  /** SHA-256 of everything in order, in hex. */
  readonly hash: string;
}

/**
 * Copies everything into a store that is empty, and reads it there again. One that holds the same already, because an
 * earlier copy was cut off behind its end, is only compared.
 *
 * @throws {StoreError} `conflict` if the other store holds something else.
 */
export async function copyContents(from: StoreContents, to: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(from.read());
  const isEmpty = await to.isEmpty();
  if (isEmpty) await to.write(items);
  else for await (const _ of items);
  const [expected, found] = [sum(), await sumOf(to)];
  if (found.hash === expected.hash) return found;
  const [given, there] = [expected, found].map(({ counts }) =>
    Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(", ")
  );
  const message = isEmpty
    ? `Cannot copy ${from.name} to ${to.name}: ${there} were read there, which aren't the ${given} that were written. ` +
      "Remove them, and try again."
    : `Cannot copy ${from.name} to ${to.name}: that isn't empty, and holds something else, ${there}. ` +
      "Copy into one that holds nothing.";
  throw new StoreError("conflict", message);
}

/** Passes items on, and sums them up. */
function summing(
  items: AsyncIterable<ContentsItem>,
): { readonly items: AsyncIterable<ContentsItem>; readonly sum: () => ContentsSum } {
  const hash = createHash("sha256");
  const counts = { sessions: 0, events: 0, texts: 0, documents: 0, keys: 0 };
  const add = (...fields: unknown[]) => hash.update(`${JSON.stringify(fields)}\n`);
  const count = (item: ContentsItem) => {
    switch (item.type) {
      case "text":
        counts.texts++;
        return add("text", item.ref, item.content);
      case "session":
        counts.sessions++;
        return add("session", item.id, item.createdAtMs, item.settings, item.parent, item.touchedAtMs);
      case "events":
        counts.events += item.events.length;
        // However many come at a time.
        for (const event of item.events) add("event", event);
        return;
      case "state":
        return add("state", item.name, item.value);
      case "archived":
        return add("archived", item.ref);
      case "document":
        counts.documents++;
        return add("document", item.kind, item.id, item.sessionId, item.value);
      case "key":
        counts.keys++;
        return add("key", item.scope, item.key, item.bodyHash, item.touchedAtMs, item.sessionId, item.answer);
    }
  };
  const pass = async function* () {
    for await (const item of items) {
      count(item);
      yield item;
    }
  };
  return { items: pass(), sum: () => ({ counts, hash: hash.copy().digest("hex") }) };
}

/** Sums contents up. */
async function sumOf(contents: StoreContents): Promise<ContentsSum> {
  const { items, sum } = summing(contents.read());
  for await (const _ of items);
  return sum();
}
