import { assert, assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { readRecording } from "@tare/simulator/economy";
import { chainsOf } from "./chains.ts";
import { measureTask, tasks, WAYS } from "./scripted_tasks.ts";

const call = (id: string, name: string): Message => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id, type: "function", function: { name, arguments: "{}" } }],
});

const answer = (id: string, content: string): Message => ({ role: "tool", tool_call_id: id, content });

const TOOL = { type: "function", function: { name: "read_file" } };

Deno.test("chainsOf() takes reads in a row of one turn for a chain, and bounds what it would leave", () => {
  const messages: Message[] = [
    { role: "user", content: "Go" },
    ...[call("1", "read_file"), answer("1", "x".repeat(100))],
    ...[call("2", "read_file"), answer("2", "x".repeat(10))],
    ...[call("3", "write_file"), answer("3", "ok")],
    ...[call("4", "read_file"), answer("4", "x")],
    { role: "assistant", content: "Done." },
  ];
  const recording = readRecording(JSON.stringify({ id: "r", tools: [TOOL], messages }));
  const chains = chainsOf(recording, (text) => text.length);
  const { calls, inChains, savedCalls } = chains;
  assertEquals({ calls, inChains, chains: chains.chains, savedCalls }, {
    ...{ calls: 5, inChains: 2, chains: 1, savedCalls: 1 },
  });
  // Without the second call's prompt; and then without the first result in the three prompts behind the chain.
  const second = chains.promptTokens - chains.allPrinted;
  assert(second > 100 && second < 250, `${second}`);
  const first = chains.allPrinted - chains.lastPrinted;
  assert(first >= 300 && first < 350, `${first}`);
});

Deno.test("measureTask() finds the same by every way, and by a program in fewer calls and tokens", async () => {
  for (const task of tasks()) {
    const [single, atOnce, program] = await Promise.all(WAYS.map((way) => measureTask(task, way, "openai")));
    assertEquals([atOnce!.answer, program!.answer], [single!.answer, single!.answer]);
    assert(single!.answer !== "" && program!.calls === 2, JSON.stringify(program));
    assert(program!.promptTokens < atOnce!.promptTokens && atOnce!.promptTokens < single!.promptTokens);
    assert(
      program!.tokenUnits < atOnce!.tokenUnits && program!.keptTokens > 1_000 && atOnce!.keptTokens === 0,
    );
  }
});
