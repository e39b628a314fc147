import { assertEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { programTool } from "@tare/tools/programs";
import { workspaceTools } from "@tare/tools";
import type { HttpAgent } from "@tare/server";
import { agent, call, newSession, scriptedModel, turn } from "../fixture_test.ts";
import {
  answerCall,
  approvalOf,
  asking,
  asksFor,
  follow,
  outline,
  readTurn,
  recorder,
  toolCall,
} from "./fixture_test.ts";

const DAY_MS = 24 * 60 * 60_000;

Deno.test("approvals: a call that needs approval waits, and the turn continues with it once it is allowed", async () => {
  const [write, read] = [recorder("write"), recorder("read", { stance: "rederivable" })];
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write", { n: 1 }), toolCall("b", "read")] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool, read.tool], now: () => 5 }));
  const session = await newSession(handler);
  const stopped = await turn(handler, session, "Go");
  assertEquals(outline(stopped), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call a",
    "tool_call b",
    "tool_result b read ran",
    "step_end",
    "approval_requested a",
    "turn_end approval",
  ]);
  assertEquals([write.ran, read.ran.length], [[], 1]);
  const path = await approvalOf(handler, session, "a");
  const approvals = [{
    id: path.split("/").at(-1)!,
    callId: "a",
    name: "write",
    arguments: '{"n":1}',
    requestedAtMs: 5,
    expiresAtMs: 5 + DAY_MS,
  }];
  assertEquals((await call(handler, "GET", `${session}/approvals`)).body, { approvals });
  const body = (await call(handler, "GET", session)).body as Record<string, unknown>;
  assertEquals([body.approvals, body.status, body.awaitsApproval], [approvals, "idle", true]);

  const last = stopped.at(-1)!.id;
  const following = follow(handler, session, last);
  const answered = await call(handler, "POST", path, { decision: "allow" });
  const { approvals: left, after } = answered.body as { approvals: unknown; after: number };
  assertEquals([answered.status, left, after], [200, [], last]);
  assertEquals(outline(await following), [
    "approval_answered a allow user",
    "turn_start",
    "tool_result a write ran",
    "step_start",
    "text_delta",
    "assistant_message",
    "step_end",
    "turn_end completed",
  ]);
  assertEquals(write.ran, [{ n: 1 }]);
  const { messages } = (await call(handler, "GET", session)).body as { messages: { role: string }[] };
  assertEquals(messages.map(({ role }) => role), [
    "system",
    "user",
    "assistant",
    "tool",
    "tool",
    "assistant",
  ]);
  assertEquals((await call(handler, "POST", path, { decision: "allow" })).status, 404);
});

Deno.test("approvals: a denied call doesn't run, and the model reads why; the turn waits for every answer", async () => {
  const write = recorder("write");
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write", { n: 1 }), toolCall("b", "write", { n: 2 })] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool] }));
  const session = await newSession(handler);
  const { id: last } = (await turn(handler, session, "Go")).at(-1)!;
  const denied = { decision: "deny", reason: "Not today." };
  const path = await approvalOf(handler, session, "a");
  const first = (await call(handler, "POST", path, denied)).body;
  assertEquals((first as { approvals: { callId: string }[] }).approvals.map(({ callId }) => callId), ["b"]);
  assertEquals((await call(handler, "POST", path, denied)).status, 409);
  assertEquals((await call(handler, "POST", `${session}/turns`, { continue: true })).status, 409);
  await answerCall(handler, session, { callId: "b", decision: "allow" });
  const went = outline(await follow(handler, session, last));
  assertEquals(went.filter((line) => line.startsWith("tool_result")).sort(), [
    "tool_result a Cannot run write: the user denied it: Not today.",
    "tool_result b write ran",
  ]);
  assertEquals(write.ran, [{ n: 2 }]);
});

Deno.test(
  "approvals: calls with one id, or the id of a program's call, are answered separately, after a restart too",
  async () => {
    const write = recorder("write");
    const program = { code: "await Promise.all([tools.write({ n: 4 }), tools.write({ n: 5 })]);" };
    const store = memoryStore();
    const model = scriptedModel([
      {
        tool_calls: [
          toolCall("p", "write", { n: 1 }),
          toolCall("p", "write", { n: 2 }),
          toolCall("p/1", "write", { n: 3 }),
          toolCall("", "run_program", program),
        ],
      },
      { tool_calls: [toolCall("p", "write", { n: 6 })] },
      { content: "Done." },
    ]);
    const options = asking({ store, tools: [write.tool, programTool()] });
    const first = agent(model, options);
    const session = await newSession(first);
    const stopped = await turn(first, session, "Go");
    const open = async (handler: HttpAgent) => {
      const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as {
        approvals: { id: string; arguments: string }[];
      };
      return new Map(approvals.map((approval) => [JSON.parse(approval.arguments).n as number, approval.id]));
    };
    const before = await open(first);
    const ids = stopped.flatMap(({ event }) => event.type === "approval_requested" ? [event.approvalId] : []);
    assertEquals([[...before.keys()], [...before.values()]], [[1, 2, 3, 4, 5], ids]);
    assertEquals(new Set(ids).size, 5);
    await first.close();

    const handler = agent(model, options);
    assertEquals(await open(handler), before);
    const decide = async (n: number, decision: string) => {
      const path = `${session}/approvals/${before.get(n)}`;
      const { status, body } = await call(handler, "POST", path, { decision });
      assertEquals([n, status], [n, 200]);
      return body as { after: number };
    };
    for (const [n, decision] of [[2, "allow"], [1, "deny"], [5, "deny"], [3, "allow"]] as const) {
      await decide(n, decision);
      assertEquals((await open(handler)).has(n), false);
    }
    const following = readTurn(handler, session, (await decide(4, "allow")).after);
    assertEquals(outline(await following).at(-1), "turn_end approval");
    assertEquals((write.ran as { n: number }[]).map(({ n }) => n).toSorted(), [2, 3, 4]);
    // The id of an earlier call is reused: an answer to the earlier approval doesn't apply.
    const late = await call(handler, "POST", `${session}/approvals/${before.get(2)}`, { decision: "allow" });
    assertEquals([late.status, [...(await open(handler)).keys()], write.ran.length], [404, [6], 3]);
    await handler.close();
  },
);

Deno.test("approvals: a new message denies pending ones, and so does cancelling, which calls no model", async () => {
  const write = recorder("write");
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write")] },
    { tool_calls: [toolCall("b", "write")] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool] }));
  const session = await newSession(handler);
  await turn(handler, session, "Go");
  const { id: last } = (await turn(handler, session, "Something else")).at(-1)!;
  const cancelled = await call(handler, "POST", `${session}/cancel`);
  assertEquals((cancelled.body as { cancelled: boolean }).cancelled, true);
  assertEquals(outline(await follow(handler, session, last)), [
    "approval_answered b deny cancel",
    "message_added",
  ]);
  const { messages } = (await call(handler, "GET", session)).body as {
    messages: { role: string; content: string }[];
  };
  assertEquals(messages.filter(({ role }) => role === "tool").map(({ content }) => content), [
    "Cannot run write: the user continued without approving it.",
    "Cannot run write: the user cancelled instead of approving it.",
  ]);
  assertEquals(write.ran, []);
  assertEquals((await call(handler, "POST", `${session}/approvals/b`, { decision: "allow" })).status, 404);
});

Deno.test(
  "approvals: they survive a restart, and at the deadline are denied and the turn continues without new ones",
  async () => {
    const write = recorder("write");
    const store = memoryStore();
    const model = scriptedModel([
      { tool_calls: [toolCall("a", "write")] },
      { tool_calls: [toolCall("a", "write")] },
      { content: "Done." },
    ]);
    const timers: { readonly ms: number; readonly work: () => void }[] = [];
    const after = (ms: number, work: () => void) => {
      timers.push({ ms, work });
      return () => timers.splice(timers.findIndex((timer) => timer.work === work), 1);
    };
    let nowMs = 0;
    const options = {
      tools: [write.tool],
      store,
      approvals: { answerWithinMs: 1_000 },
      after,
      now: () => nowMs,
    };
    const first = agent(model, options);
    const session = await newSession(first);
    const { id: last } = (await turn(first, session, "Go")).at(-1)!;
    assertEquals(timers.map(({ ms }) => ms), [1_000]);
    await first.close();
    assertEquals(timers, []);

    nowMs = 400;
    const second = agent(model, options);
    await second.attend();
    assertEquals(timers.map(({ ms }) => ms), [600]);
    const following = follow(second, session, last);
    timers[0]!.work();
    const went = outline(await following);
    assertEquals(went.slice(0, 2), ["approval_answered a deny time", "turn_start"]);
    assertStringIncludes(went[2]!, "tool_result a Cannot run write: the approval timed out.");
    assertStringIncludes(went.find((line) => /no user can give it here/.test(line)) ?? "", "tool_result a");
    assertEquals(went.at(-1), "turn_end completed");
    assertEquals([write.ran, timers], [[], []]);
  },
);

Deno.test(
  "approvals: always allows calls like this one for the rest of the session, after a restart too, and nothing else",
  async () => {
    const shell = recorder("shell");
    const store = memoryStore();
    const commands = ["ls src", "ls src", "ls src -l", "ls"];
    const model = scriptedModel([
      ...commands.map((command) => ({ tool_calls: [toolCall("a", "shell", { command })] })),
      { content: "Done." },
    ]);
    const options = asking({ tools: [shell.tool], store });
    const first = agent(model, options);
    const session = await newSession(first);
    await turn(first, session, "Go");
    await first.close();
    const second = agent(model, options);
    const { body } = await answerCall(second, session, { callId: "a", decision: "always" });
    const { after } = body as { readonly after: number };
    const following = follow(second, session, after);
    await readTurn(second, session, after);
    assertEquals(await asksFor(second, session), ['{"command":"ls src -l"}']);
    assertEquals(shell.ran, [{ command: "ls src" }, { command: "ls src" }]);
    await second.close();
    assertEquals(outline(await following).at(-1), "turn_end approval");
  },
);

Deno.test("approvals: a turn that continues with answers is one turn, whose end reports its whole cost", async () => {
  const write = recorder("write");
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write")] },
    { content: "Done." },
    { content: "Yes." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool] }));
  const session = await newSession(handler);
  const stopped = await turn(handler, session, "Go");
  const following = follow(handler, session, stopped.at(-1)!.id);
  await answerCall(handler, session, { callId: "a", decision: "allow" });
  const ended = [...stopped, ...await following, ...await turn(handler, session, "All of it?")].flatMap((
    { event },
  ) => event.type === "turn_end" ? [event] : []);
  assertEquals(ended.map(({ ledger, whole }) => [ledger.calls, whole?.calls]), [
    [1, undefined],
    [1, 2],
    [1, undefined],
  ]);
  const { calls } = (await call(handler, "GET", `${session}/calls`)).body as { calls: { turn: number }[] };
  assertEquals(calls.map(({ turn }) => turn), [1, 1, 2]);
  assertEquals(((await call(handler, "GET", session)).body as { turns: number }).turns, 2);
});

Deno.test("approvals: an edit is displayed with its changes, and its approval doesn't apply to other changes", async () => {
  const workspace = await Deno.makeTempDir();
  const file = `${workspace}/a.txt`;
  await Deno.writeTextFile(file, "one\ntwo\n");
  const edit = (id: string, old_text: string, new_text: string) =>
    toolCall(id, "edit_file", { path: "a.txt", old_text, new_text });
  const write = (id: string, content: string) => toolCall(id, "write_file", { path: "a.txt", content });
  const model = scriptedModel([
    { tool_calls: [edit("a", "two", "three"), edit("b", "four", "five"), edit("c", "one", "1")] },
    { tool_calls: [write("d", "new\n")] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: workspaceTools({ workspace }), approvals: { workspace } }));
  const session = await newSession(handler);
  const stopped = await turn(handler, session, "Go");
  const lines = (change: unknown) => (change as { diff: string }).diff.split("\n").slice(1);
  const changes = stopped.flatMap(({ event }) =>
    event.type === "approval_requested" ? [[event.id, lines(event.change)]] : []
  );
  assertEquals(changes, [["a", [" one", "-two", "+three"]], ["c", ["-one", "+1", " two"]]]);
  assertStringIncludes(
    outline(stopped).find((line) => line.startsWith("tool_result b"))!,
    "old_text is not in it",
  );
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as {
    approvals: { callId: string; change: { path: string } }[];
  };
  assertEquals(approvals.map(({ callId, change }) => [callId, change.path, lines(change)]), [
    ["a", "a.txt", changes[0]![1]],
    ["c", "a.txt", changes[1]![1]],
  ]);
  const second = readTurn(handler, session, stopped.at(-1)!.id);
  await answerCall(handler, session, { callId: "a", decision: "allow" });
  await answerCall(handler, session, { callId: "c", decision: "allow" });
  const went = await second;
  assertEquals(await Deno.readTextFile(file), "1\nthree\n");
  const made = went.flatMap(({ event }) => event.type === "tool_result" ? [[event.id, event.error]] : []);
  assertEquals(made.toSorted(), [["a", false], ["c", false]]);

  await Deno.writeTextFile(file, "somebody's\n");
  const third = readTurn(handler, session, went.at(-1)!.id);
  await answerCall(handler, session, { callId: "d", decision: "allow" });
  assertStringIncludes(
    outline(await third).find((line) => line.startsWith("tool_result d"))!,
    "have changed",
  );
  assertEquals(await Deno.readTextFile(file), "somebody's\n");
  await handler.close();
  await Deno.remove(workspace, { recursive: true });
});

Deno.test("approvals: results of answered calls are stored before the next model call", async () => {
  const write = recorder("write");
  const store = memoryStore();
  const stored: (readonly string[])[] = [];
  let session = "";
  const replies = scriptedModel([{ tool_calls: [toolCall("a", "write")] }, { content: "Done." }]);
  const handler = agent(async function* (request) {
    const events = await store.readEvents(session.split("/").at(-1)!, { types: ["tool_result"] });
    stored.push(events.map(({ event }) => String(event.id)));
    yield* replies(request);
  }, asking({ tools: [write.tool], store }));
  session = await newSession(handler);
  const stopped = await turn(handler, session, "Go");
  const following = follow(handler, session, stopped.at(-1)!.id);
  await answerCall(handler, session, { callId: "a", decision: "allow" });
  assertEquals(outline(await following).at(-1), "turn_end completed");
  assertEquals(stored, [[], ["a"]]);
});
