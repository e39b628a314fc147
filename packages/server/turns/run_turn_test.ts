import { assertEquals } from "@std/assert";
import type { Tool } from "@tare/messages";
import { StoreError } from "@tare/store";
import { echo } from "../fixture_test.ts";
import { FULL } from "../sessions/store_fixture_test.ts";
import { call, dictatedSession } from "./dictation_fixture_test.ts";

Deno.test("no call runs if its reply can't be stored", async () => {
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
