import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Tool } from "@tare/messages";
import { StoreError } from "@tare/session";
import { agent, echo, newSession, turn } from "../fixture_test.ts";
import { FULL } from "../sessions/store_fixture_test.ts";
import { call, dictatedSession } from "./dictation_fixture_test.ts";

Deno.test("runTurn() runs no call if its reply can't be stored", async () => {
  const ran: string[] = [];
  const tool: Tool = { ...echo, run: () => (ran.push("echo"), "x") };
  const full = new StoreError("full", FULL);
  const see = (commit: string) => commit.includes("tool_call") ? Promise.reject(full) : undefined;
  const { session, dictation, commits } = await dictatedSession({ tools: [tool], see });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  dictation.end({ tool_calls: [call("a")] });
  assertEquals((await done).error, full);
  assertEquals([ran, commits.filter((commit) => commit.includes("tool_result"))], [[], []]);
});

function reader(run: () => void): Tool {
  return { ...echo, stance: "rederivable", run: () => (run(), "x".repeat(9000)) };
}

Deno.test("runTurn() runs read-only calls while their reply is stored, and waits with the next step", async () => {
  const log: string[] = [];
  const bothRan = Promise.withResolvers<void>();
  const tool = reader(() => {
    if (log.push("ran") === 2) bothRan.resolve();
  });
  const { session, dictation } = await dictatedSession({
    tools: [tool],
    truncateTokens: 500,
    put: () => void log.push("archive"),
    async see(commit) {
      if (commit.includes("text so far")) {
        await bothRan.promise;
        await new Promise((resolve) => setTimeout(resolve));
      }
      log.push(commit);
    },
  });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  log.splice(0);
  await dictation.say("text so far");
  dictation.end({ tool_calls: [call("a"), call("b")] });
  await dictation.requested();
  log.push("requested");
  dictation.end();
  assertEquals((await done).error, undefined);
  assertEquals(log, [
    "ran",
    "ran",
    'step_start "text so far"',
    "assistant_message tool_call tool_call (value)",
    "archive",
    "archive",
    "tool_result tool_result step_end step_start context_rewritten (patch) (totals) totals",
    "requested",
    "assistant_message step_end turn_end (patch) (totals) totals (turn)",
  ]);
});

Deno.test("runTurn() runs no call of a reply with other than read-only calls before the reply is stored", async () => {
  const log: string[] = [];
  const reads = reader(() => void log.push("read"));
  const name = "other";
  const does: Tool = {
    ...echo,
    definition: { ...echo.definition, function: { ...echo.definition.function, name } },
    run: () => (log.push("did"), "x"),
  };
  const { session, dictation } = await dictatedSession({
    tools: [reads, does],
    see: (commit) => void log.push(commit),
  });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  log.splice(0);
  dictation.end({ tool_calls: [call("a"), call("b", name)] });
  await dictation.requested();
  assertEquals(log.slice(0, 3), [
    "step_start assistant_message tool_call tool_call (value)",
    "read",
    "did",
  ]);
  dictation.end();
  await done;
});

Deno.test("runTurn() ends a turn whose calls run while their reply can't be stored", async () => {
  const full = new StoreError("full", FULL);
  const runs = Promise.withResolvers<void>();
  const tool: Tool = {
    ...echo,
    stance: "rederivable",
    run: (_, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        runs.resolve();
      }),
  };
  const { session, dictation } = await dictatedSession({
    tools: [tool],
    async see(commit) {
      if (!commit.includes("tool_call")) return;
      await runs.promise;
      throw full;
    },
  });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  dictation.end({ tool_calls: [call("a")] });
  assertEquals((await done).error, full);
});

Deno.test("runTurn() ends a turn without a limit of its own after 500,000 output tokens", async () => {
  const usage = { promptTokens: 10, cachedTokens: 0, outputTokens: 500_000 };
  let calls = 0;
  const handler = agent(async function* () {
    calls++;
    const message = { role: "assistant", content: "", tool_calls: [call("a")] } as const;
    yield { type: "completed", message, finishReason: "tool_calls", usage };
  });
  const { event } = (await turn(handler, await newSession(handler), "Go.")).at(-1)!;
  assertEquals([event.type === "turn_end" && event.reason, calls], ["output_limit", 1]);
});

Deno.test("runTurn() ends a turn whose prompt exceeds the window with advice, and calls no model", async () => {
  let calls = 0;
  const handler = agent(async function* () {
    calls++;
    yield { type: "completed", message: { role: "assistant", content: "So." }, finishReason: "stop" };
  }, { windowTokens: 4_000 });
  const { event } = (await turn(handler, await newSession(handler), "many words ".repeat(20_000))).at(-1)!;
  assert(event.type === "turn_end");
  assertEquals([event.reason, event.code, calls], ["model_error", "prompt_too_long", 0]);
  assertMatch(event.message ?? "", /use a model with a larger window/);
});
