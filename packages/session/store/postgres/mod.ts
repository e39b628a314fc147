/**
 * A store in PostgreSQL that several processes have open at once.
 *
 * {@linkcode openPostgresStore} opens it, {@linkcode openPostgresContents} its contents for a copy. `@tare/session`
 * doesn't
 * load this module or the database's client.
 *
 * @example
 * ```ts
 * import { openPostgresStore } from "@tare/session/postgres";
 *
 * async function firstWords(url: string) {
 *   const store = await openPostgresStore(url);
 *   await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 *   const hold = await store.shared.hold("s1");
 *   if (!hold) throw new Error("Another process holds it.");
 *   await store.commit([{ type: "events", sessionId: "s1", after: 0, events: [{ type: "turn_start" }] }]);
 *   await store.close();
 * }
 * ```
 *
 * @module
 */
export { openPostgresContents, type PostgresContentsOptions } from "./contents.ts";
export { openPostgresStore, type PostgresStore, type PostgresStoreOptions } from "./open_postgres.ts";
