/**
 * A store in PostgreSQL, behind the same port as the others, that any number of processes have open at once.
 *
 * {@linkcode openPostgresStore} opens it, {@linkcode openPostgresContents} all that it holds, to be copied. `@tare/session`
 * doesn't load it, nor the database's client.
 *
 * @example
 * ```ts
 * import { openPostgresStore } from "@tare/session/postgres";
 *
 * async function firstWords(url: string) {
 *   const store = await openPostgresStore(url);
 *   await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 *   const hold = await store.shared.hold("s1");
 *   if (!hold) throw new Error("Somebody else writes to it.");
 *   await store.commit([{ type: "events", sessionId: "s1", after: 0, events: [{ type: "turn_start" }] }]);
 *   await store.close();
 * }
 * ```
 *
 * @module
 */
export { openPostgresContents, type PostgresContentsOptions } from "./contents.ts";
export { openPostgresStore, type PostgresStore, type PostgresStoreOptions } from "./open_postgres.ts";
