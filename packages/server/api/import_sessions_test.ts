import { assertEquals, assertRejects } from "@std/assert";
import type { Message } from "@tare/messages";
import { memoryStore, StoreError } from "@tare/store";
import { importSessions } from "./import_sessions.ts";
import { Player, scriptedSessions, snapshot } from "../script_fixture_test.ts";
import { failingStore } from "../sessions/store_fixture_test.ts";

const call = { id: "c", type: "function", function: { name: "gone", arguments: "{}" } } as const;
const asked: Message[] = [
  { role: "user", content: "q", name: "n" },
  { role: "assistant", content: null, tool_calls: [call] },
  { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "r" }] },
];

Deno.test("importSessions() makes sessions whose histories are exactly the messages, also after a restart", async () => {
  const histories: Message[][] = [
    asked,
    [{ role: "system", content: "i" }, ...asked, { role: "system", content: "also" }, {
      role: "user",
      content: "r",
    }],
    [{ role: "system", content: "i", name: "n" }, { role: "assistant", content: "a" }],
    [{ role: "developer", content: "d" }, { role: "function", name: "f", content: null }],
    [{ role: "system", content: "" }],
  ];
  const store = memoryStore();
  const sessions = scriptedSessions({ store });
  const made = await importSessions(histories, sessions);
  assertEquals(made.map(({ history }) => history), histories);
  assertEquals(made.map(({ settings }) => settings.instructions), ["", "i", "", "", ""]);
  const restarted = scriptedSessions({ store });
  for (const session of made) assertEquals(snapshot(await restarted.get(session.id)), snapshot(session));
});

Deno.test("importSessions() makes sessions that can be continued", async () => {
  const sessions = scriptedSessions({ store: memoryStore() });
  const [session] = await importSessions([asked], sessions);
  const player = new Player();
  await player.play(session!, undefined);
  assertEquals(JSON.parse(player.requests[0]!).messages, asked);
  assertEquals(session!.history.at(-1), { role: "assistant", content: "1.0" });
});

Deno.test("importSessions() makes none if one can't be stored", async () => {
  const store = failingStore((call) => call === 2);
  const sessions = scriptedSessions({ store });
  await assertRejects(() => importSessions([asked, asked, asked], sessions), StoreError);
  assertEquals([store.countSessions(), sessions.list()], [0, []]);
});
