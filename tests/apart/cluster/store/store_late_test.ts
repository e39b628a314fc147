import { assertEquals, assertRejects } from "@std/assert";
import { StoreError } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { openPostgresStore } from "@tare/session/postgres";
import { held } from "../../../../packages/session/store/openings_fixture_test.ts";
import { request, sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { Client } from "pg";
import { query, startPostgres } from "../postgres.ts";
import { FEW, GIVING_UP, LOSING, proxyTo, through, withDatabase } from "./store.ts";

const postgres = await startPostgres();

const state = (value: number): StoreRecord => ({ type: "state", sessionId: "a", name: "x", value });

Deno.test("commit() writes nothing when it reaches the server late, after others, from an abandoned connection", () =>
  withDatabase(postgres, async (url) => {
    const proxy = proxyTo(url);
    const store = await openPostgresStore(through(url, proxy), LOSING);
    await store.commit([sessionRecord("a")]);
    await held(store, "a");
    proxy.set({ type: "stuck", newPass: true });
    await store.commit([state(1)]);
    await store.commit([state(2)]);
    proxy.set({ type: "open" });
    // Everything is done once all connections are closed.
    await store.close();
    await proxy[Symbol.asyncDispose]();
    const connected =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while ((await query(url, connected)).length > 0);
    const later = await openPostgresStore(url, FEW);
    assertEquals(await later.readState("a", "x"), 2);
    await later.close();
  }));

Deno.test("commit() continues after one whose outcome wasn't reported in time", () =>
  withDatabase(postgres, async (url) => {
    let isMute = false;
    const onAnswer = (piece: Uint8Array) => isMute ? undefined : piece;
    const proxy = proxyTo(url, { onAnswer });
    const store = await openPostgresStore(through(url, proxy), GIVING_UP);
    const first: StoreRecord = { type: "events", sessionId: "a", after: 0, events: [{ type: "turn_start" }] };
    await store.commit([sessionRecord("a")]);
    await held(store, "a");
    await store.commit([state(1)]);
    isMute = true;
    const error = await assertRejects(() => store.commit([first, state(2)]), StoreError);
    assertEquals(error.code, "io");
    isMute = false;
    await store.commit([state(3)]);
    assertEquals([await store.lastEvent("a"), await store.readState("a", "x")], [1, 3]);
    const again = await assertRejects(() => store.commit([first, state(2)]), StoreError);
    assertEquals([again.code, await store.readState("a", "x")], ["conflict", 3]);
    await store.close();
    await proxy[Symbol.asyncDispose]();
  }));

Deno.test("hold: a session held by an unreported attempt is released", () =>
  withDatabase(postgres, async (url) => {
    const store = await openPostgresStore(url, FEW);
    await store.commit([sessionRecord("a"), sessionRecord("b")]);
    const taken = await held(store, "b");
    const [row] = await query<{ holder: string }>(
      url,
      "SELECT holder FROM tare.heads WHERE holder IS NOT NULL",
    );
    await query(url, "UPDATE tare.heads SET holder = $1, fence = 7 WHERE holder IS NULL", [row!.holder]);
    const other = await openPostgresStore(url, FEW);
    let hold;
    while (!(hold = await other.shared.hold("a")));
    assertEquals([hold.fence, await other.shared.hold("b"), taken.isSure()], [8, undefined, true]);
    await store.close();
    await other.close();
  }));

Deno.test("claimKey: a key claimed by an unreported attempt is released", () =>
  withDatabase(postgres, async (url) => {
    let isCut = false;
    const claims = (piece: Uint8Array) => new TextDecoder().decode(piece).includes("tare.claim_key");
    const onSent = (piece: Uint8Array) => isCut && claims(piece) ? "cut after" : undefined;
    const proxy = proxyTo(url, { onSent });
    const store = await openPostgresStore(through(url, proxy), GIVING_UP);
    const other = await openPostgresStore(url, FEW);
    const gone = await openPostgresStore(url, FEW);
    const worked = { ...request, key: "worked on" };
    await gone.claimKey(worked);
    await gone.close();
    isCut = true;
    await assertRejects(() => store.claimKey(request), StoreError);
    await assertRejects(() => store.claimKey(worked), StoreError);
    isCut = false;
    const states: string[] = [];
    for (const one of [request, worked]) {
      let state;
      while ((state = (await other.claimKey(one)).state) === "running");
      states.push(state);
    }
    // The outcome of the other one is still unknown.
    assertEquals(states, ["new", "interrupted"]);
    await store.close();
    await other.close();
    await proxy[Symbol.asyncDispose]();
  }));

const brief = (fence: number, ...records: StoreRecord[]) => ({ sessionId: "a", fence, records });
const event = (after: number): StoreRecord => ({
  type: "events",
  sessionId: "a",
  after,
  events: [{ type: "call" }],
});

Deno.test("holdAndCommit() is done once when its answer is lost, also after others that came in between", () =>
  withDatabase(postgres, async (url) => {
    let isMute = false;
    let lost = Promise.withResolvers<void>();
    const onAnswer = (piece: Uint8Array) => {
      if (!isMute) return piece;
      lost.resolve();
      return undefined;
    };
    const proxy = proxyTo(url, { onAnswer });
    const store = await openPostgresStore(through(url, proxy), LOSING);
    const other = await openPostgresStore(url, FEW);
    const losing = async (fence: number, meanwhile: () => Promise<unknown>, ...records: StoreRecord[]) => {
      lost = Promise.withResolvers();
      isMute = true;
      const done = store.shared.holdAndCommit(brief(fence, ...records));
      await lost.promise;
      await meanwhile();
      isMute = false;
      return await done;
    };
    const made: StoreRecord = { ...sessionRecord("a"), kind: "gateway" };
    const seen = async () => [await other.lastEvent("a"), (await other.shared.inspect("a")).fence];
    assertEquals([await losing(0, () => Promise.resolve(), made, event(0)), await seen()], [1, [1, 1]]);
    assertEquals([await losing(1, () => Promise.resolve(), event(1)), await seen()], [2, [2, 2]]);
    const inBetween = async () => {
      while ((await other.shared.inspect("a")).fence < 3);
      assertEquals(await other.shared.holdAndCommit(brief(3, event(3))), 4);
      await held(other, "a");
    };
    assertEquals([await losing(2, inBetween, event(2)), await seen()], [3, [4, 5]]);
    assertEquals(await store.shared.holdAndCommit(brief(3, event(4))), undefined);
    assertEquals(await seen(), [4, 5]);
    await store.close();
    await other.close();
    await proxy[Symbol.asyncDispose]();
  }));

Deno.test("holdAndCommit() writes nothing when it reaches the server late, after others", () =>
  withDatabase(postgres, async (url) => {
    const proxy = proxyTo(url);
    const store = await openPostgresStore(through(url, proxy), LOSING);
    await store.commit([sessionRecord("a")]);
    proxy.set({ type: "stuck", newPass: true });
    assertEquals(await store.shared.holdAndCommit(brief(0, state(1))), 1);
    assertEquals(await store.shared.holdAndCommit(brief(1, state(2))), 2);
    proxy.set({ type: "open" });
    await store.close();
    await proxy[Symbol.asyncDispose]();
    const connected =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    while ((await query(url, connected)).length > 0);
    const later = await openPostgresStore(url, FEW);
    assertEquals([await later.readState("a", "x"), (await later.shared.inspect("a")).fence], [2, 2]);
    await later.close();
  }));

Deno.test("commit() is retried and done once if it waits too long for a lock", () =>
  withDatabase(postgres, async (url) => {
    const refused = Promise.withResolvers<void>();
    // PostgreSQL's code for a lock timeout.
    const isRefusal = (piece: Uint8Array) => new TextDecoder().decode(piece).includes("55P03");
    const proxy = proxyTo(url, {
      onAnswer(piece) {
        if (isRefusal(piece)) refused.resolve();
        return piece;
      },
    });
    const store = await openPostgresStore(through(url, proxy), { ...FEW, lockMs: 50 });
    await store.commit([sessionRecord("a")]);
    await held(store, "a");
    const somebody = new Client({ connectionString: url });
    await somebody.connect();
    await somebody.query("BEGIN");
    await somebody.query("SELECT FROM tare.heads FOR UPDATE");
    const committed = store.commit([event(0), state(1)]);
    await refused.promise;
    await somebody.query("COMMIT");
    await committed;
    assertEquals([await store.lastEvent("a"), await store.readState("a", "x")], [1, 1]);
    await somebody.end();
    await store.close();
    await proxy[Symbol.asyncDispose]();
  }));
