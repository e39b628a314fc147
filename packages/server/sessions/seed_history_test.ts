import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { memoryStore } from "@tare/store";
import { echo } from "../fixture_test.ts";
import { openaiOptions, scriptedModel } from "../as_model/openai_fixture_test.ts";
import { startTurn } from "./run_turn.ts";
import { seedHistory } from "./seed_history.ts";
import { Sessions } from "./sessions.ts";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";

const store = memoryStore();
const newSessions = () =>
  new Sessions({
    store,
    defaultModel: "m",
    tools: [echo],
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("none"),
    windowTokens: 100_000,
    mechanisms: { context: false, prune: false, schemas: false, truncate: false },
  });

const call = (id: string) => ({ id, type: "function", function: { name: "echo", arguments: "{}" } }) as const;
const said: readonly Message[] = [
  { role: "user", content: "1" },
  { role: "assistant", content: "", tool_calls: [call("a"), call("b")], reasoning_content: "Hm." },
  { role: "tool", tool_call_id: "a", content: "x" },
  { role: "tool", tool_call_id: "b", content: "ü" },
  { role: "assistant", content: "2" },
  { role: "user", content: [{ type: "text", text: "3" }] },
  { role: "assistant", content: "", tool_calls: [call("a")] },
  { role: "tool", tool_call_id: "a", content: "y" },
];

Deno.test("seedHistory() gives a session a history that outlives the process", async () => {
  const session = await newSessions().create({ instructions: "i" });
  seedHistory(session, said);
  const system = { role: "system", content: "i" } as const;
  assertEquals(session.history, [system, ...said]);
  assertEquals((await newSessions().get(session.id)).history, [system, ...said]);

  const { model } = scriptedModel([{ content: "5" }]);
  startTurn(session, "4", { ...openaiOptions(model), model });
  await session.running?.done;
  const whole = [system, ...said, { role: "user", content: "4" }, { role: "assistant", content: "5" }];
  assertEquals(session.history as unknown[], whole);
  const again = await newSessions().get(session.id);
  assertEquals([again.history as unknown[], again.turns, again.ledger.calls], [whole, 1, 1]);
});

Deno.test("seedHistory() keeps each message as it is, and says nothing where there is none", async () => {
  const session = await newSessions().create({ instructions: "" });
  seedHistory(session, []);
  assertEquals(session.events.last, 0);
  const odd: Message[] = [
    { role: "developer", content: "d", name: "n" },
    { role: "function", name: "f", content: null },
    { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "x" }] },
  ];
  seedHistory(session, odd);
  assertEquals((await newSessions().get(session.id)).history, odd);
});
