/** A store with all kinds of contents, and a query of everything. @module */
import { archiveRef } from "@tare/prune";
import type { Store } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { sessionRecord } from "./store_suite_fixture_test.ts";

const TEXTS = ["a result", "\0 Ünïcødé \u{1f600} \r\n", "x".repeat(100_000)];
const DONE = { scope: "POST /tare/v1/sessions", key: "done", bodyHash: "h" };
const OPEN = { scope: "POST /tare/v1/sessions", key: "open", bodyHash: "h" };
const FREE = { scope: "A", key: "é\u{1f600}", bodyHash: "h" };

/**
 * Fills an empty store: sessions with unordered names, a fork, one with a deleted parent, and this number of events.
 */
export async function fillStore(store: Store, events = 700): Promise<void> {
  const refs = await Promise.all(TEXTS.map(archiveRef));
  const archive = (sessionId: string, index: number): StoreRecord => ({
    type: "archive",
    sessionId,
    ref: refs[index]!,
    content: TEXTS[index]!,
  });
  await store.commit([sessionRecord("z"), archive("z", 0), archive("z", 1)]);
  await store.commit([{ ...sessionRecord("fork", "z"), kind: "gateway" }, archive("fork", 2)]);
  await store.commit([sessionRecord("gone"), sessionRecord("Ä", "gone"), sessionRecord("a")]);
  // On a shared store only holders may write.
  for (const id of ["z", "gone", "a"]) await store.shared?.hold(id);
  const spent = { usd: 0.1 + 0.2, calls: 1 };
  await store.commit([
    { type: "totals", sessionId: "gone", added: [{ day: "", about: "\0\ud83d", totals: spent }] },
    { type: "totals", sessionId: "a", added: [{ day: "2026-01-31", about: "m", totals: { usd: 1e-9 } }] },
    { type: "totals", sessionId: "a", added: [{ day: "", about: "m", totals: {} }] },
  ]);
  await store.deleteSession("gone");
  for (let after = 0; after < events; after += 100) {
    const received = Array.from({ length: Math.min(100, events - after) }, (_, index) => ({
      type: index % 2 === 0 ? "text_delta" : "step_end",
      text: `${after + index} \0 \ud83d "\u{1f600}"`,
      totals: { 10: 1, b: 1.5e300, a: null },
    }));
    await store.commit([{ type: "events", sessionId: "z", after, events: received }]);
  }
  await store.commit([
    { type: "events", sessionId: "a", after: 0, events: [{ type: "turn_start" }] },
    { type: "names", sessionId: "z", names: ["n"] },
    { type: "names", sessionId: "a", names: ["n", "\0\ud83d"] },
    { type: "names", sessionId: "z", names: ["n", "m"] },
    { type: "state", sessionId: "z", name: "title", value: 'Say "hi"' },
    { type: "state", sessionId: "z", name: "Totals", value: null },
    { type: "state", sessionId: "z", name: "totals", value: { turns: 1, cost: 0.1 + 0.2 } },
    { type: "document", kind: "response", id: "r", sessionId: "a", value: { b: [1], a: "\0" } },
    { type: "document", kind: "key", id: "k", value: { hash: "h" } },
    { type: "document", kind: "Response", id: "r", sessionId: "fork", value: false },
    { type: "delivery", id: "\0 d", receiver: "x", sessionId: "z", value: { b: ["\0"] }, dueInMs: 0 },
    { type: "delivery", id: "c", receiver: "x", value: 1, dueInMs: 0 },
    { type: "delivery_attempt", id: "c", claim: 0, value: "\ud83d" },
  ]);
  for (const request of [DONE, OPEN, FREE]) await store.claimKey(request);
  await store.commit([
    { type: "response", ...DONE, response: { status: 201 }, sessionId: "z" },
    { type: "response", ...FREE, response: null },
  ]);
}

/** Returns everything that {@linkcode fillStore} wrote. Claims the open key. */
export async function askStore(store: Store): Promise<unknown> {
  const sessions = await store.listSessions();
  const refs = await Promise.all(TEXTS.map(archiveRef));
  const parts = await Promise.all(sessions.map(async ({ id }) => [
    JSON.stringify(await store.readEvents(id)),
    await Promise.all(["title", "Totals", "totals"].map((name) => store.readState(id, name))),
    await Promise.all(refs.map((ref) => store.archive(id).get(ref))),
  ]));
  const documents = [await store.getDocument("response", "r"), await store.getDocument("Response", "r")];
  const claims: Awaited<ReturnType<Store["claimKey"]>>[] = [];
  for (const request of [DONE, OPEN, FREE]) claims.push(await store.claimKey(request));
  const idle = await store.idleSessions({ kind: "agent", beforeMs: 2 ** 50, limit: 10 });
  const named = await Promise.all(["n", "m", "\0\ud83d"].map((name) => store.findByName([name])));
  return [
    named,
    await store.countSessions("gateway"),
    (await store.listSessions({ forks: false })).map(({ id }) => id),
    (await store.readTotals({ from: "", to: "9" })).map((
      { about, totals },
    ) => [about, Object.entries(totals).sort()]).sort(),
    sessions,
    JSON.stringify(sessions),
    parts,
    documents,
    await store.listDeliveries("x"),
    claims,
    idle.sort(),
  ];
}
