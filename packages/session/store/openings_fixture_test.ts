/** Several openings of one store for tests. @module */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import type { Hold, HolderRequest, SharedStore, StoreRecord } from "@tare/session/internal";
import { sessionRecord } from "./store_suite_fixture_test.ts";

export type Opening = Store & { readonly shared: SharedStore };

/** Opens one store several times, as separate processes would, and simulates events of processes. */
export interface Openings {
  open(): Promise<Opening>;
  /**
   * Suspends an opening as `SIGSTOP` does: its messages are lost and its lease expires. Resolves when the lease has
   * expired by both clocks.
   */
  stop(opening: Opening): Promise<void>;
  goOn(opening: Opening): void;
}

export type SharedPlace = (test: (place: Openings) => Promise<void>) => Promise<void>;

export const delta = (text: string): { readonly type: string; readonly text: string } => ({
  type: "text_delta",
  text,
});

export function events(sessionId: string, after: number, ...texts: readonly string[]): StoreRecord {
  return { type: "events", sessionId, after, events: texts.map(delta) };
}

export async function held(opening: Opening, sessionId: string): Promise<Hold> {
  const hold = await opening.shared.hold(sessionId);
  assert(hold, `Another opening holds ${sessionId}.`);
  return hold;
}

export async function assertFenced(act: () => Promise<unknown>, sessionId: string): Promise<void> {
  const error = await assertRejects(act, StoreError);
  assertEquals([error.code, error.message], [
    "fenced",
    `Cannot write to session ${JSON.stringify(sessionId)}: this opening of the store doesn't hold it. ` +
    "Hold it, and read the newer events.",
  ]);
}

export function listen(
  { shared }: Opening,
  onRequest: (request: HolderRequest) => void = () => {},
): { readonly gone: () => Promise<void> } {
  let gone = Promise.withResolvers<void>();
  shared.listen({ onRequest, onExpired: () => gone.resolve() });
  return {
    gone: async () => {
      await gone.promise;
      gone = Promise.withResolvers();
    },
  };
}

export type TestOfOpenings = (
  what: string,
  use: (one: Opening, two: Opening, place: Openings) => Promise<void>,
) => void;

/** Returns a function that defines such tests for `place`. `name` is the function that opens stores. */
export function openingsTest(name: string, place: SharedPlace): TestOfOpenings {
  return (what, use) =>
    Deno.test(`${name}: ${what}`, () =>
      place(async (openings) => {
        const one = await openings.open();
        await one.commit([sessionRecord("a"), sessionRecord("b")]);
        await use(one, await openings.open(), openings);
      }));
}

/** Returns a store that holds each session before writing, for tests with a single opening. */
export function holding(store: Opening): Opening {
  const take = async (sessionId: string) => {
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
      // Sessions held here are retained otherwise.
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
