import { assertEquals, assertStringIncludes } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import type { FunctionToolCall, Tool } from "@tare/messages";
import { memoryStore } from "@tare/store";
import {
  agent,
  call,
  events,
  newSession,
  request,
  scriptedModel,
  type SeenEvent,
  turn,
} from "../fixture_test.ts";
import type { AgentHandler, AgentOptions } from "@tare/server";

const DAY_MS = 24 * 60 * 60_000;

/** A tool that writes down what it ran with. */
function recorder(name: string, more: Partial<Tool> = {}): { readonly tool: Tool; readonly ran: unknown[] } {
  const ran: unknown[] = [];
  const definition = { type: "function", function: { name, parameters: { type: "object" } } } as const;
  const run = (args: unknown) => {
    ran.push(args);
    return `${name} ran`;
  };
  return { tool: { definition, run, ...more }, ran };
}

function toolCall(id: string, name: string, args: unknown = {}): FunctionToolCall {
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

function outline(seen: readonly { readonly event: { readonly type: string } }[]): string[] {
  return seen.map(({ event }) => {
    const { type, id, reason, decision, by, content } = event as Record<string, unknown>;
    return [type, id, reason, decision, by, content].filter((part) => part !== undefined).join(" ");
  });
}

/** Who follows a session from this event on, up to the end of a turn for another reason than a question. */
async function follow(handler: AgentHandler, session: string, after: number) {
  const response = await handler.fetch(request("GET", `${session}/events?after=${after}`));
  return await events(response);
}

/** The arguments of the calls that wait. */
async function asksFor(handler: AgentHandler, session: string): Promise<string[]> {
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as {
    approvals: { arguments: string }[];
  };
  return approvals.map((approval) => approval.arguments);
}

/** The events behind a number up to the next turn's end. */
async function readTurn(handler: AgentHandler, session: string, after: number): Promise<SeenEvent[]> {
  const response = await handler.fetch(request("GET", `${session}/events?after=${after}`));
  const seen: SeenEvent[] = [];
  for await (const { id, data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    if (data === undefined) continue;
    const event: SeenEvent["event"] = JSON.parse(data);
    seen.push({ id: Number(id), event });
    if (event.type === "turn_end") break;
  }
  return seen;
}

function asking(options: Partial<AgentOptions> = {}) {
  return { approvals: {}, ...options };
}

Deno.test("a call that has to be asked for waits, and the turn goes on with it once it is allowed", async () => {
  const [write, read] = [recorder("write"), recorder("read", { stance: "rederivable" })];
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write", { n: 1 }), toolCall("b", "read")] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool, read.tool], now: () => 5 }));
  const session = await newSession(handler);
  const asked = await turn(handler, session, "Go");
  assertEquals(outline(asked), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call a",
    "tool_call b",
    "tool_result b read ran",
    "step_end",
    "approval_asked a",
    "turn_end approval",
  ]);
  assertEquals([write.ran, read.ran.length], [[], 1]);
  const approvals = [{
    callId: "a",
    name: "write",
    arguments: '{"n":1}',
    askedAtMs: 5,
    expiresAtMs: 5 + DAY_MS,
  }];
  assertEquals((await call(handler, "GET", `${session}/approvals`)).body, { approvals });
  const shown = (await call(handler, "GET", session)).body as Record<string, unknown>;
  assertEquals([shown.approvals, shown.status], [approvals, "idle"]);

  const last = asked.at(-1)!.id;
  const following = follow(handler, session, last);
  const answered = await call(handler, "POST", `${session}/approvals/a`, { decision: "allow", askedAtMs: 5 });
  const { approvals: left, after } = answered.body as { approvals: unknown; after: number };
  assertEquals([answered.status, left, after], [200, [], last]);
  assertEquals(outline(await following), [
    "approval_answered a allow person",
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
  assertEquals((await call(handler, "POST", `${session}/approvals/a`, { decision: "allow" })).status, 404);
});

Deno.test("a denied call doesn't run, and the model reads why; the turn waits for every answer", async () => {
  const write = recorder("write");
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write", { n: 1 }), toolCall("b", "write", { n: 2 })] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool] }));
  const session = await newSession(handler);
  const { id: last } = (await turn(handler, session, "Go")).at(-1)!;
  const denied = { decision: "deny", reason: "Not today." };
  const first = (await call(handler, "POST", `${session}/approvals/a`, denied)).body;
  assertEquals((first as { approvals: { callId: string }[] }).approvals.map(({ callId }) => callId), ["b"]);
  assertEquals((await call(handler, "POST", `${session}/approvals/a`, denied)).status, 409);
  const stale = { decision: "allow", askedAtMs: 99 };
  assertEquals((await call(handler, "POST", `${session}/approvals/b`, stale)).status, 409);
  assertEquals((await call(handler, "POST", `${session}/turns`, { continue: true })).status, 409);
  await call(handler, "POST", `${session}/approvals/b`, { decision: "allow" });
  const went = outline(await follow(handler, session, last));
  assertEquals(went.filter((line) => line.startsWith("tool_result")).sort(), [
    "tool_result a Cannot run write: the user said no: Not today.",
    "tool_result b write ran",
  ]);
  assertEquals(write.ran, [{ n: 2 }]);
});

Deno.test("a new message denies what is asked, and so does cancelling, which calls no model", async () => {
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
    "Cannot run write: the user went on without saying whether it may run.",
    "Cannot run write: the user was asked whether it may run, and cancelled.",
  ]);
  assertEquals(write.ran, []);
});

Deno.test("questions survive a restart, and after their time it is no and the turn goes on without asking again", async () => {
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
    approvals: { answerWithinMs: 1_000, after },
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
  await second.watchApprovals();
  assertEquals(timers.map(({ ms }) => ms), [600]);
  const following = follow(second, session, last);
  timers[0]!.work();
  const went = outline(await following);
  assertEquals(went.slice(0, 2), ["approval_answered a deny time", "turn_start"]);
  assertStringIncludes(went[2]!, "tool_result a Cannot run write: nobody said in time whether it may run.");
  assertStringIncludes(went.find((line) => /nobody can be asked here/.test(line)) ?? "", "tool_result a");
  assertEquals(went.at(-1), "turn_end completed");
  assertEquals([write.ran, timers], [[], []]);
});

Deno.test("always allows calls like this one for the rest of the session, after a restart too, and nothing else", async () => {
  const shell = recorder("shell");
  const store = memoryStore();
  const commands = ["ls src", "ls src -l", "ls src; rm x", "ls"];
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
  const { body } = await call(second, "POST", `${session}/approvals/a`, { decision: "always" });
  const response = await second.fetch(
    request("GET", `${session}/events?after=${(body as { after: number }).after}`),
  );
  const following = events(response);
  // Two run, and the third is asked for.
  while (shell.ran.length < 2 || (await asksFor(second, session)).length === 0) await Promise.resolve();
  assertEquals(await asksFor(second, session), ['{"command":"ls src; rm x"}']);
  assertEquals(shell.ran, [{ command: "ls src" }, { command: "ls src -l" }]);
  await second.close();
  assertEquals(outline(await following).at(-1), "turn_end approval");
});

Deno.test("where nobody can be asked it is no, or yes where the server says so, and rules hold all the same", async () => {
  const rules = [{ tool: "drop", decision: "deny" }] as const;
  for (const unattended of [undefined, "deny", "allow"] as const) {
    for (const asModel of [true, false]) {
      const [write, drop] = [recorder("write"), recorder("drop")];
      const model = scriptedModel([
        { tool_calls: [toolCall("a", "write"), toolCall("b", "drop")] },
        { content: "Done." },
      ]);
      const approvals = { rules, ...(unattended && { unattended }) };
      const handler = agent(model, { tools: [write.tool, drop.tool], approvals });
      if (asModel) {
        const body = { model: "agent", messages: [{ role: "user", content: "Go" }] };
        const { status } = await call(handler, "POST", "/v1/chat/completions", body);
        assertEquals(status, 200);
      } else {
        const session = await newSession(handler);
        const body = { input: "Go", unattended: true };
        const seen = outline(await events(await handler.fetch(request("POST", `${session}/turns`, body))));
        assertEquals(seen.at(-1), "turn_end completed");
        assertEquals(seen.some((line) => line.includes("nobody can be asked here")), unattended !== "allow");
      }
      assertEquals([write.ran.length, drop.ran.length], [unattended === "allow" ? 1 : 0, 0]);
    }
  }
});

Deno.test("a session's own rules hold beside the server's, the stricter first", async () => {
  const [read, write] = [recorder("read", { stance: "rederivable" }), recorder("write")];
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "read"), toolCall("b", "write")] },
    { content: "Done." },
  ]);
  const approvals = { rules: [{ tool: "read", decision: "allow" }] } as const;
  const handler = agent(model, { tools: [read.tool, write.tool], approvals });
  const approvalRules = [{ tool: "read", decision: "deny" }, { tool: "write", decision: "allow" }];
  const session = await newSession(handler, { approvalRules });
  await turn(handler, session, "Go");
  assertEquals([read.ran.length, write.ran.length], [0, 1]);
  const { body } = await call(handler, "GET", session);
  assertEquals((body as { approvalRules: unknown }).approvalRules, approvalRules);
  const wrong = { approvalRules: [{ tool: "shell", argument: "git status", decision: "allow" }] };
  assertEquals((await call(handler, "POST", "/v1/sessions", wrong)).status, 400);
});

Deno.test("a yes outranks no rule that has come to deny since it was asked for", async () => {
  const write = recorder("write");
  const store = memoryStore();
  const model = scriptedModel([{ tool_calls: [toolCall("a", "write")] }, { content: "Done." }]);
  const first = agent(model, asking({ tools: [write.tool], store }));
  const session = await newSession(first);
  const { id: last } = (await turn(first, session, "Go")).at(-1)!;
  await first.close();
  const rules = [{ tool: "write", decision: "deny" }] as const;
  const second = agent(model, { tools: [write.tool], store, approvals: { rules } });
  await call(second, "POST", `${session}/approvals/a`, { decision: "allow" });
  const went = outline(await follow(second, session, last));
  assertStringIncludes(went[2]!, "tool_result a Cannot run write: a rule forbids it.");
  assertEquals(write.ran, []);
});

Deno.test("what a turn may cost holds over its questions", async () => {
  const write = recorder("write");
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write")] },
    { tool_calls: [toolCall("b", "write")] },
    { content: "Never." },
  ]);
  const store = memoryStore();
  const first = agent(model, asking({ tools: [write.tool], store }));
  const session = await newSession(first);
  const body = { input: "Go", budget: { maxSteps: 2 } };
  const { id } = (await events(await first.fetch(request("POST", `${session}/turns`, body)))).at(-1)!;
  await first.close();
  const handler = agent(model, asking({ tools: [write.tool], store }));
  const second = readTurn(handler, session, id);
  await call(handler, "POST", `${session}/approvals/a`, { decision: "allow" });
  const { id: last } = (await second).at(-1)!;
  const third = readTurn(handler, session, last);
  await call(handler, "POST", `${session}/approvals/b`, { decision: "allow" });
  assertEquals(outline(await third), [
    "approval_answered b allow person",
    "turn_start",
    "tool_result b write ran",
    "turn_end budget",
  ]);
  await handler.close();
});

Deno.test("a turn that was cut off behind its answers says what was denied, and of what was allowed that nobody knows", async () => {
  const write = recorder("write");
  const store = memoryStore();
  const model = scriptedModel([
    { tool_calls: [toolCall("a", "write"), toolCall("b", "write")] },
    { content: "Done." },
  ]);
  const first = agent(model, asking({ tools: [write.tool], store }));
  const session = await newSession(first);
  const asked = await turn(first, session, "Go");
  await first.close();
  // What the commit of the last answer leaves behind if the server is killed right after it.
  const sessionId = session.split("/").at(-1)!;
  const after = asked.at(-1)!.id;
  await store.commit([{
    type: "events",
    sessionId,
    after,
    events: [
      { type: "approval_answered", id: "a", decision: "allow", by: "person" },
      { type: "approval_answered", id: "b", decision: "deny", reason: "No.", by: "person" },
      { type: "turn_start" },
    ] as { type: string }[],
  }]);
  const second = agent(model, asking({ tools: [write.tool], store }));
  assertEquals((await call(second, "GET", `${session}/approvals`)).body, { approvals: [] });
  const went = outline(await follow(second, session, after + 3));
  assertEquals(went, [
    "tool_result a Cannot tell the result: interrupted, outcome unknown. It may have taken effect: find out before you " +
    "call it again.",
    "tool_result b Cannot run write: the user said no: No.",
    "turn_end interrupted",
  ]);
  assertEquals((await call(second, "POST", `${session}/approvals/a`, { decision: "allow" })).status, 404);
  const goesOn = await events(await second.fetch(request("POST", `${session}/turns`, { continue: true })));
  assertEquals(outline(goesOn).at(-1), "turn_end completed");
  assertEquals(write.ran, []);
});

Deno.test("an answer that is one too many for the turns that may run changes nothing, and time tries again", async () => {
  const write = recorder("write");
  const timers: { readonly ms: number; readonly work: () => void }[] = [];
  const after = (ms: number, work: () => void) => {
    timers.push({ ms, work });
    return () => timers.splice(0);
  };
  const released = Promise.withResolvers<void>();
  const replies = scriptedModel([{ tool_calls: [toolCall("a", "write")] }, { content: "Done." }]);
  const errors: unknown[] = [];
  const handler = agent(
    async function* (asked) {
      if (asked.messages.some(({ content }) => content === "wait")) await released.promise;
      yield* replies(asked);
    },
    {
      tools: [write.tool],
      maxRunningTurns: 1,
      approvals: { after, answerWithinMs: 7 },
      onError: (error) => errors.push(String(error)),
    },
  );
  const session = await newSession(handler);
  const { id: last } = (await turn(handler, session, "Go")).at(-1)!;
  const busy = await handler.fetch(request("POST", `${await newSession(handler)}/turns`, { input: "wait" }));
  assertEquals((await call(handler, "POST", `${session}/approvals/a`, { decision: "allow" })).status, 429);
  assertEquals((await asksFor(handler, session)).length, 1);
  timers[0]!.work();
  while (timers.length < 2) await new Promise((resolve) => setTimeout(resolve));
  assertEquals([timers.map(({ ms }) => ms), errors.length], [[7, 10_000], 1]);
  released.resolve();
  await events(busy);
  const following = follow(handler, session, last);
  timers[1]!.work();
  assertEquals(outline(await following)[0], "approval_answered a deny time");
  assertEquals(write.ran, []);
});
