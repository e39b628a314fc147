import { assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "@std/path";
import { DatabaseSync } from "node:sqlite";
import { archiveRef, bytesFromText } from "@tare/prune";
import { crc32, zstdCompressSync } from "node:zlib";
import { StoreError } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import { openDatabase } from "./database.ts";
import { withFolder } from "../folder_fixture_test.ts";
import { MIGRATIONS } from "./migrations.ts";

const sessions = {
  full: {
    model: "m",
    budget: { max_steps: 3, max_tokens: 1000, max_cost: 0.5 },
    metadata: { max_steps: "x" },
  },
  some: { model: "m", budget: { max_tokens: 7 }, metadata: {} },
  none: { model: "m", budget: {}, metadata: {} },
  other: "no object",
};

const totals = (name: string) => ({ ledger: { calls: 1, saved: { prune: 5, [name]: 7 } }, turns: 1 });
const events = (name: string) => [
  { type: "turn_start", input: "Hi." },
  { type: "context_rewritten", step: 1, mechanism: name, reason: "too long" },
  { type: "context_rewritten", step: 1, mechanism: "prune", reason: "bound" },
  { type: "turn_end", reason: "completed", ledger: totals(name).ledger },
  { type: "turn_end", reason: "cancelled" },
];

/** Makes a file as the program of version 1 left it, with a session of each of these settings and one that is damaged. */
async function makeVersion1(path: string): Promise<void> {
  openDatabase(path, { migrations: MIGRATIONS.slice(0, 1) }).close();
  const database = new DatabaseSync(path);
  const insert = (table: string, ...values: (string | number | Uint8Array<ArrayBuffer> | null)[]) =>
    database.prepare(`INSERT INTO ${table} VALUES (${values.map(() => "?").join()})`).run(...values);
  const stored = (value: unknown) => [JSON.stringify(value), crc32(JSON.stringify(value))] as const;
  for (const [index, [id, settings]] of Object.entries(sessions).entries()) {
    insert("sessions", index + 1, id, ...stored({ id, createdAtMs: index, settings }));
  }
  insert("sessions", 9, "damaged", JSON.stringify({ id: "damaged", settings: sessions.full }), 0);
  for (const [index, event] of events("bound").entries()) {
    insert("events", 1, index + 1, event.type, ...stored(event));
  }
  insert("state", 1, "totals", ...stored(totals("bound")));
  insert("state", 1, "context", ...stored(totals("bound")));
  insert(
    "documents",
    "response",
    "r",
    1,
    ...stored({ kind: "response", id: "r", sessionId: "full", value: 1 }),
  );
  insert("texts", await archiveRef("text"), new Uint8Array(zstdCompressSync(bytesFromText("text"))));
  insert("archived", 1, await archiveRef("text"));
  insert("idempotency_keys", "s", "done", "h", "an owner", 0, 1, ...stored({ status: 201 }));
  insert("idempotency_keys", "s", "begun", "h", "an owner", 0, null, null, null);
  database.close();
}

Deno.test("openStore() takes over a file of version 1: budgets and one mechanism have new names, sessions titles, all else is as it was", () =>
  withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    await makeVersion1(path);
    for (const opening of ["first", "second"]) {
      const store = await openStore(path, { now: () => 1 });
      assertEquals(
        await Promise.all(Object.keys(sessions).map((id) => store.getSession(id))),
        Object.entries({
          ...sessions,
          full: { ...sessions.full, budget: { maxSteps: 3, maxTokens: 1000, maxTokenUnits: 0.5 } },
          some: { ...sessions.some, budget: { maxTokens: 7 } },
        }).map(([id, settings], index) => ({ id, createdAtMs: index, settings })),
      );
      await assertRejects(() => store.getSession("damaged"), StoreError, "its checksum doesn't match");
      assertEquals((await store.readEvents("full")).map(({ event }) => event), events("truncate"));
      assertEquals(await store.readState("full", "totals"), totals("truncate"));
      assertEquals(await store.readState("full", "context"), totals("bound"));
      const found = await store.listSessions({ search: "hi" });
      assertEquals(found.map(({ id, title }) => [id, title]), [["full", "Hi."]]);
      assertEquals((await store.getDocument("response", "r"))?.value, 1);
      assertEquals(await store.archive("full").get(await archiveRef("text")), "text");
      assertEquals(await store.claimKey({ scope: "s", key: "done", bodyHash: "h" }), {
        state: "done",
        response: { status: 201 },
      });
      assertEquals(await store.claimKey({ scope: "s", key: "begun", bodyHash: "h" }), {
        state: "interrupted",
      }, opening);
      await store.close();
    }
  }));

Deno.test("MIGRATIONS makes the tables of version 1 that are in people's files", () =>
  withFolder((folder) => {
    const path = join(folder, "tare.db");
    const database = openDatabase(path, { migrations: MIGRATIONS.slice(0, 1) });
    const sql = database.prepare<{ sql: string }>(
      "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name",
    )
      .all().map(({ sql }) => sql.replaceAll(/\s+/g, " "));
    database.close();
    assertEquals(createHash("sha256").update(sql.join("; ")).digest("hex").slice(0, 16), "b7b05df55f39e03e");
  }));
