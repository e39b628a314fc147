// deno bench -A packages/conversation
import { join } from "@std/path";
import type { Store, StoreRecord } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";

const folder = Deno.makeTempDirSync();
const path = join(folder, "tare.db");
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

const SESSIONS = 500;
const delta = { type: "text_delta", step: 3, text: " and so on" };
const result = {
  type: "tool_result",
  step: 3,
  id: "call",
  content: "const answer = 42; // found\n".repeat(300),
};

function newSession(id: string): StoreRecord {
  return { type: "session", kind: "agent", id, createdAtMs: 0, settings: { model: "m" } };
}

/** A session of 200,000 tokens: 100 steps, each with 100 text deltas and a tool result of 2,000 tokens. */
async function fillHistory(store: Store, sessionId: string): Promise<void> {
  for (let step = 0; step < 100; step++) {
    const after = await store.lastEvent(sessionId);
    const deltas = Array.from({ length: 100 }, () => delta);
    await store.commit([{ type: "events", sessionId, after, events: deltas }]);
    const events = [result, { type: "step_end" }];
    await store.commit([{ type: "events", sessionId, after: after + 100, events }]);
  }
}

let store = await openStore(path);
const ids = Array.from({ length: SESSIONS }, (_, index) => `session ${index}`);
await store.commit(ids.map(newSession));
for (const id of ids.slice(0, 10)) await fillHistory(store, id);

let turn = 0;
const next = () => ids[turn++ % SESSIONS] ?? "";
/** Numbers of sessions' last events, as whoever writes to a session knows it. */
const last = new Map<string, number>();
for (const id of ids) last.set(id, await store.lastEvent(id));

/** An event behind the last of the next session. */
function nextEvent(event: { readonly type: string }): StoreRecord & { readonly sessionId: string } {
  const sessionId = next();
  const after = last.get(sessionId) ?? 0;
  last.set(sessionId, after + 1);
  return { type: "events", sessionId, after, events: [event] };
}

Deno.bench("append a text delta, 500 sessions in turn", async () => {
  await store.commit([nextEvent(delta)]);
});

Deno.bench("append a tool result of 8 KB and save a state of 20 KB", async () => {
  const event = nextEvent(result);
  const { sessionId } = event;
  await store.commit([
    event,
    { type: "state", sessionId, name: "edits", value: result.content.repeat(2) },
    { type: "state", sessionId, name: "ledger", value: { calls: 1 } },
  ]);
});

Deno.bench("read a session of 200,000 tokens: all 10,200 events", async () => {
  await store.readEvents("session 3");
});

Deno.bench("read a session of 200,000 tokens: its 200 events that aren't text deltas", async () => {
  await store.readEvents("session 3", { types: ["tool_result", "step_end"] });
});

Deno.bench("list the newest 100 of 500 sessions, with their last events and totals", async () => {
  await store.listSessions();
});

const smallPath = join(folder, "small.db");
const small = await openStore(smallPath);
await small.commit([newSession("a")]);
for (let times = 0; times < 10; times++) await fillHistory(small, "a");
await small.close();

Deno.bench("open a store of 20 MB, which is checked as a whole", async (bench) => {
  bench.start();
  const opened = await openStore(smallPath);
  bench.end();
  await opened.close();
});

Deno.bench("open a store of hundreds of MB, which isn't", async (bench) => {
  await store.close();
  bench.start();
  store = await openStore(path);
  bench.end();
});

const words = Array.from({ length: 5000 }, (_, index) => `word${index * 7919 % 5000}`).join(" ");
const refs = await Promise.all(ids.map((id) => store.archive(id).put(`${id} ${words}`)));

Deno.bench("archive a new text of 40 KB", async () => {
  await store.archive(next()).put(`${turn} ${words}`);
});

Deno.bench("archive a text of 40 KB that is there", async () => {
  await store.archive("session 0").put(`session 0 ${words}`);
});

Deno.bench("read an archived text of 40 KB", async () => {
  await store.archive("session 7").get(refs[7] ?? "");
});

Deno.bench("delete a session of 10,200 events and 2.5 MB", { n: 10, warmup: 0 }, async (bench) => {
  const id = `to delete ${turn++}`;
  await store.commit([newSession(id)]);
  await fillHistory(store, id);
  bench.start();
  await store.deleteSession(id);
  bench.end();
});
