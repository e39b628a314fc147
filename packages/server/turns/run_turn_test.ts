import { assertEquals } from "@std/assert";
import type { Tool } from "@tare/messages";
import { StoreError } from "@tare/store";
import { echo } from "../fixture_test.ts";
import { FULL } from "../sessions/store_fixture_test.ts";
import { call, dictatedSession } from "./dictation_fixture_test.ts";

Deno.test("a call that may change something waits until its reply is stored, one that only reads doesn't", async () => {
  const ran: string[] = [];
  const read = Promise.withResolvers<void>();
  const tool = (name: string, more: Partial<Tool>): Tool => ({
    ...echo,
    ...more,
    definition: { type: "function", function: { name } },
    run: () => {
      ran.push(name);
      if (name === "reads") read.resolve();
      return name;
    },
  });
  const tools = [
    tool("reads", { stance: "rederivable" }),
    tool("writes", { stance: "once" }),
    tool("says", {}),
  ];
  const stored = Promise.withResolvers<void>();
  const see = (commit: string) => commit.includes("tool_call") ? stored.promise : undefined;
  const { session, dictation } = await dictatedSession({ tools, see });
  const { done } = await session.start({ input: "q" });
  await dictation.asked();
  dictation.end({ tool_calls: [call("a", "writes"), call("b", "reads"), call("c", "says")] });
  await read.promise;
  assertEquals(ran, ["reads"]);
  stored.resolve();
  await dictation.asked();
  assertEquals(ran, ["reads", "writes", "says"]);
  dictation.end();
  await done;
});

Deno.test("no call that may change something runs if its reply can't be stored", async () => {
  const ran: string[] = [];
  const tool: Tool = { ...echo, run: () => (ran.push("echo"), "x") };
  const full = new StoreError("full", FULL);
  const see = (commit: string) => commit.includes("tool_call") ? Promise.reject(full) : undefined;
  const { session, dictation, commits } = await dictatedSession({ tools: [tool], see });
  const { done } = await session.start({ input: "q" });
  await dictation.asked();
  dictation.end({ tool_calls: [call("a")] });
  assertEquals((await done).error, full);
  assertEquals([ran, commits.filter((commit) => commit.includes("tool_result"))], [[], []]);
});
