import { assertEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { agent, call, events, newSession, request, scriptedModel, turn } from "../fixture_test.ts";
import {
  answerCall,
  asking,
  asksFor,
  follow,
  outline,
  readTurn,
  recorder,
  toolCall,
} from "./fixture_test.ts";

Deno.test("approvals: without a user they are denied, or allowed by the server's setting, and rules still apply", async () => {
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
        assertEquals(seen.some((line) => line.includes("no user can give it here")), unattended !== "allow");
      }
      assertEquals([write.ran.length, drop.ran.length], [unattended === "allow" ? 1 : 0, 0]);
    }
  }
});

Deno.test("approvals: a session's own rules apply with the server's, the strictest first", async () => {
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
  assertEquals((await call(handler, "POST", "/tare/v1/sessions", wrong)).status, 400);
});

Deno.test("approvals: an allowed call is denied if a rule denies it by now", async () => {
  const write = recorder("write");
  const store = memoryStore();
  const model = scriptedModel([{ tool_calls: [toolCall("a", "write")] }, { content: "Done." }]);
  const first = agent(model, asking({ tools: [write.tool], store }));
  const session = await newSession(first);
  const { id: last } = (await turn(first, session, "Go")).at(-1)!;
  await first.close();
  const rules = [{ tool: "write", decision: "deny" }] as const;
  const second = agent(model, { tools: [write.tool], store, approvals: { rules } });
  await answerCall(second, session, { callId: "a", decision: "allow" });
  const went = outline(await follow(second, session, last));
  assertStringIncludes(went[2]!, "tool_result a Cannot run write: a rule forbids it.");
  assertEquals(write.ran, []);
});

Deno.test("approvals: a turn's budget includes its cost before the approval", async () => {
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
  await answerCall(handler, session, { callId: "a", decision: "allow" });
  const { id: last } = (await second).at(-1)!;
  const third = readTurn(handler, session, last);
  await answerCall(handler, session, { callId: "b", decision: "allow" });
  assertEquals(outline(await third), [
    "approval_answered b allow user",
    "turn_start",
    "tool_result b write ran",
    "turn_end budget",
  ]);
  await handler.close();
});

Deno.test(
  "approvals: a turn that was interrupted after its answers reports denials, and the unknown outcome of allowed calls",
  async () => {
    const write = recorder("write");
    const store = memoryStore();
    const model = scriptedModel([
      { tool_calls: [toolCall("a", "write"), toolCall("b", "write")] },
      { content: "Done." },
    ]);
    const first = agent(model, asking({ tools: [write.tool], store }));
    const session = await newSession(first);
    const stopped = await turn(first, session, "Go");
    await first.close();
    const sessionId = session.split("/").at(-1)!;
    const after = stopped.at(-1)!.id;
    const ids = stopped.flatMap(({ event }) =>
      event.type === "approval_requested" ? [{ approvalId: event.approvalId, id: event.id }] : []
    );
    await store.commit([{
      type: "events",
      sessionId,
      after,
      events: [
        { type: "approval_answered", ...ids[0], decision: "allow", by: "user" },
        { type: "approval_answered", ...ids[1], decision: "deny", reason: "No.", by: "user" },
        { type: "turn_start" },
      ] as { type: string }[],
    }]);
    const second = agent(model, asking({ tools: [write.tool], store }));
    assertEquals((await call(second, "GET", `${session}/approvals`)).body, { approvals: [] });
    const went = outline(await follow(second, session, after + 3));
    assertEquals(went, [
      "tool_result a Cannot report the result: interrupted, outcome unknown. It may have taken effect: check before " +
      "calling it again.",
      "tool_result b Cannot run write: the user denied it: No.",
      "turn_end interrupted",
    ]);
    assertEquals((await answerCall(second, session, { callId: "a", decision: "allow" })).status, 404);
    const continued = await events(
      await second.fetch(request("POST", `${session}/turns`, { continue: true })),
    );
    assertEquals(outline(continued).at(-1), "turn_end completed");
    assertEquals(write.ran, []);
  },
);

Deno.test("approvals: an answer beyond the limit of running turns changes nothing, and the timer retries", async () => {
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
    async function* (incoming) {
      if (incoming.messages.some(({ content }) => content === "wait")) await released.promise;
      yield* replies(incoming);
    },
    {
      tools: [write.tool],
      maxRunningTurns: 1,
      approvals: { answerWithinMs: 7 },
      after,
      onError: (error) => errors.push(String(error)),
    },
  );
  const session = await newSession(handler);
  const { id: last } = (await turn(handler, session, "Go")).at(-1)!;
  const busy = await handler.fetch(request("POST", `${await newSession(handler)}/turns`, { input: "wait" }));
  assertEquals((await answerCall(handler, session, { callId: "a", decision: "allow" })).status, 429);
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
