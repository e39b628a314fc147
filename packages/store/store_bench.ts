// deno bench -A packages/store
import { join } from "@std/path";
import { openStore, type SessionStore } from "@tare/store";

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

/** A session of 200,000 tokens: 100 steps, each with 100 text deltas and a tool result of 2,000 tokens. */
function fillHistory(store: SessionStore, id: string): void {
  for (let step = 0; step < 100; step++) {
    store.appendEvents(id, Array.from({ length: 100 }, () => delta));
    store.appendEvents(id, [result, { type: "step_end" }]);
  }
}

let store = openStore(path);
const ids = Array.from({ length: SESSIONS }, (_, index) => `session ${index}`);
for (const id of ids) store.createSession({ id, createdAtMs: 0, settings: { model: "m" } });
for (const id of ids.slice(0, 10)) fillHistory(store, id);

let turn = 0;
const next = () => ids[turn++ % SESSIONS] ?? "";

Deno.bench("append a text delta, 500 sessions in turn", () => {
  store.appendEvents(next(), [delta]);
});

Deno.bench("append a tool result of 8 KB and save a state of 20 KB", () => {
  store.appendEvents(next(), [result], { state: { edits: result.content.repeat(2), ledger: { calls: 1 } } });
});

Deno.bench("read a session of 200,000 tokens: all 10,200 events", () => {
  store.readEvents("session 3");
});

Deno.bench("read a session of 200,000 tokens: its 200 events that aren't text deltas", () => {
  store.readEvents("session 3", { types: ["tool_result", "step_end"] });
});

Deno.bench("list the newest 100 of 500 sessions", () => {
  store.listSessions();
});

const smallPath = join(folder, "small.db");
const small = openStore(smallPath);
small.createSession({ id: "a", createdAtMs: 0, settings: {} });
for (let times = 0; times < 10; times++) fillHistory(small, "a");
small.close();

Deno.bench("open a store of 20 MB, which is checked as a whole", (bench) => {
  bench.start();
  const opened = openStore(smallPath);
  bench.end();
  opened.close();
});

Deno.bench("open a store of hundreds of MB, which isn't", (bench) => {
  store.close();
  bench.start();
  store = openStore(path);
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

Deno.bench("delete a session of 10,200 events and 2.5 MB", { n: 10, warmup: 0 }, (bench) => {
  const id = `to delete ${turn++}`;
  store.createSession({ id, createdAtMs: 0, settings: {} });
  fillHistory(store, id);
  bench.start();
  store.deleteSession(id);
  bench.end();
});
