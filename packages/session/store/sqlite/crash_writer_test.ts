// The process killed by crash_test.ts: writes endlessly and prints what is acknowledged.
import { openStore } from "@tare/session/sqlite";

const SESSIONS = ["a", "b", "c"];

if (import.meta.main) {
  const [path = ""] = Deno.args;
  const store = await openStore(path);
  const encoder = new TextEncoder();
  const say = (line: string) => Deno.stdout.writeSync(encoder.encode(`${line}\n`));
  for (const id of SESSIONS) {
    if (!await store.getSession(id)) {
      await store.commit([{ type: "session", kind: "agent", id, createdAtMs: 0, settings: {} }]);
    }
  }
  say("open");
  for (let turn = 0;; turn++) {
    const id = SESSIONS[turn % SESSIONS.length] ?? "";
    const last = await store.lastEvent(id);
    const events = Array.from({ length: 1 + turn % 4 }, (_, index) => {
      const number = last + index + 1;
      return { type: "text_delta", number, text: `${number} `.repeat(number % 50 === 0 ? 5000 : 5) };
    });
    const ref = turn % 20 === 0 ? await store.archive(id).put(`result ${id} ${last} `.repeat(2000)) : "";
    if (ref !== "") say(`${id} ref ${ref}`);
    await store.commit([
      { type: "events", sessionId: id, after: last, events },
      { type: "state", sessionId: id, name: "last", value: last + events.length },
      { type: "state", sessionId: id, name: "ref", value: ref },
    ]);
    say(`${id} event ${last + events.length}`);
  }
}
