/**
 * Several openings of one store, for tests of what they do together. Holds no tests of its own.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import type { Hold, HolderRequest, SharedStore, StoreRecord } from "@tare/session/internal";
import { sessionRecord } from "./store_suite_fixture_test.ts";

/** A store that others have open too. */
export type Opening = Store & { readonly shared: SharedStore };

/** Opens one store several times, each as another process would, and does to these what happens to processes. */
export interface Openings {
  /** Opens it once more, beside those that have it open. */
  open(): Promise<Opening>;
  /**
   * Stops an opening as `SIGSTOP` does its process: what it does reaches nobody, and its lease runs out. Resolves when
   * its own clock says so, and another one may take what it holds.
   */
  stop(opening: Opening): Promise<void>;
  /** Lets a stopped one go on. */
  goOn(opening: Opening): void;
}

/** Runs a test on openings of a store of its own, and ends those that the test hasn't closed. */
export type SharedPlace = (test: (place: Openings) => Promise<void>) => Promise<void>;

/** An event of a word. */
export const delta = (text: string): { readonly type: string; readonly text: string } => ({
  type: "text_delta",
  text,
});

/** Events behind number `after`. */
export function events(sessionId: string, after: number, ...texts: readonly string[]): StoreRecord {
  return { type: "events", sessionId, after, events: texts.map(delta) };
}

/** Takes a session that can be taken. */
export async function held(opening: Opening, sessionId: string): Promise<Hold> {
  const hold = await opening.shared.hold(sessionId);
  assert(hold, `Another opening holds ${sessionId}.`);
  return hold;
}

/** Asserts that something is refused because this opening doesn't hold the session. */
export async function assertFenced(act: () => Promise<unknown>, sessionId: string): Promise<void> {
  const error = await assertRejects(act, StoreError);
  assertEquals([error.code, error.message], [
    "fenced",
    `Cannot write to session ${JSON.stringify(sessionId)}: this opening of the store doesn't hold it. ` +
    "Hold it, and read the newer events.",
  ]);
}

/** Says when another opening is gone, each time anew. */
export function listen(
  { shared }: Opening,
  asked: (request: HolderRequest) => void = () => {},
): { readonly gone: () => Promise<void> } {
  let gone = Promise.withResolvers<void>();
  shared.listen({ asked, gone: () => gone.resolve() });
  return {
    gone: async () => {
      await gone.promise;
      gone = Promise.withResolvers();
    },
  };
}

/** Runs a test on two openings of a store that holds the sessions `a` and `b`. */
export type TestOfOpenings = (
  what: string,
  use: (one: Opening, two: Opening, place: Openings) => Promise<void>,
) => void;

/** Such tests of the stores which `place` opens. `name` is the function that opens them. */
export function openingsTest(name: string, place: SharedPlace): TestOfOpenings {
  return (what, use) =>
    Deno.test(`${name}: ${what}`, () =>
      place(async (openings) => {
        const one = await openings.open();
        await one.commit([sessionRecord("a"), sessionRecord("b")]);
        await use(one, await openings.open(), openings);
      }));
}

/** A store that takes each session that something is to be written to, for tests that know of one opening alone. */
export function holding(store: Opening): Opening {
  const take = async (sessionId: string) => {
    // A session that isn't there is what the store itself has to say something of.
    await store.shared.hold(sessionId).catch(() => {});
  };
  return {
    ...store,
    async commit(records) {
      for (const record of records) {
        if ("sessionId" in record && record.sessionId !== undefined) await take(record.sessionId);
      }
      await store.commit(records);
    },
    async listSessions(options) {
      return (await store.listSessions(options)).map(({ isHeld: _, ...session }) => session);
    },
    async expireSessions(limits) {
      // What is taken here counts as held.
      for (const { id } of await store.listSessions({ kind: limits.kind })) await store.shared.release(id);
      return await store.expireSessions(limits);
    },
    async deleteSession(id) {
      await take(id);
      return store.deleteSession(id);
    },
    archive(id) {
      const { put, get } = store.archive(id);
      return {
        get,
        put: (content) => take(id).then(() => put(content)),
      };
    },
  };
}
