import { assertEquals } from "@std/assert";
import { StoreError } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { contentText, type Model, type Tool } from "@tare/messages";
import type { ApprovalOptions, HttpAgent } from "@tare/server";
import { answerCall, follow, outline, readTurn, toolCall } from "../approvals/fixture_test.ts";
import { ALLOW_EVERYTHING } from "../approvals/rules.ts";
import { agent, call, newSession, request } from "../fixture_test.ts";
import { recordedStore } from "./store_fixture_test.ts";

function model(names: readonly string[]): Model {
  return async function* ({ messages }) {
    const isFirst = !messages.some(({ role }) => role === "assistant");
    const calls = names.map((name, at) => toolCall(`${at}`, name));
    yield {
      type: "completed",
      message: {
        role: "assistant",
        content: isFirst ? null : "Done.",
        ...(isFirst && { tool_calls: calls }),
      },
      finishReason: isFirst ? "tool_calls" : "stop",
      usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
    };
  };
}

async function cutOff(
  unknownOutcome: NonNullable<ApprovalOptions["unknownOutcome"]>,
  { names, unattended = false }: { readonly names: readonly string[]; readonly unattended?: boolean },
) {
  const store = recordedStore();
  const running = Promise.withResolvers<void>();
  let runs = 0;
  const hanging = (name: string, more: Partial<Tool> = {}): Tool => ({
    definition: { type: "function", function: { name, parameters: { type: "object" } } },
    ...more,
    run: () => {
      if (++runs === names.length) running.resolve();
      return new Promise(() => {});
    },
  });
  const ran: string[] = [];
  const working = (tool: Tool): Tool => ({
    ...tool,
    run() {
      ran.push(tool.definition.function.name);
      return "worked";
    },
  });
  const cleared: string[] = [];
  const clearUp = (args: object, { callId }: { readonly callId?: string }) =>
    Promise.resolve(void cleared.push(`${callId} ${JSON.stringify(args)} before ${ran.length} calls`));
  const tools = [
    hanging("act", { clearUp }),
    hanging("look", { stance: "rederivable" }),
    hanging("put", { hints: { idempotentHint: true }, clearUp }),
  ];
  const options = {
    clock: { now: () => 0, after: () => () => {} },
    approvals: { rules: ALLOW_EVERYTHING, unknownOutcome },
    after: () => () => {},
  };
  const before = agent(model(names), { ...options, store, tools });
  const path = await newSession(before);
  await before.fetch(request("POST", `${path}/turns`, { input: "q", unattended }));
  await running.promise;
  const reopened = await store.upTo(store.writes);
  const handler = agent(model(names), { ...options, store: reopened, tools: tools.map(working) });
  return { handler, path, ran, cleared };
}

const results = async (handler: HttpAgent, path: string) => {
  const { messages } = (await call(handler, "GET", path)).body as {
    messages: { role: string; content: string }[];
  };
  return messages.filter(({ role }) => role === "tool").map(({ content }) => contentText(content));
};

const UNKNOWN = "Cannot report the result: interrupted, outcome unknown.";

Deno.test("unknown outcome: the model is notified of an interrupted call, which isn't made again", async () => {
  const { handler, path, ran } = await cutOff("report", { names: ["act", "look"] });
  assertEquals(outline(await follow(handler, path, 0)).slice(-7), [
    `tool_result 0 ${UNKNOWN} It may have taken effect: check before calling it again.`,
    `tool_result 1 ${UNKNOWN} It is read-only: call it again if needed.`,
    "turn_resumed",
    ...["step_start", "assistant_message", "step_end", "turn_end completed"],
  ]);
  assertEquals(ran, []);
});

Deno.test("unknown outcome: a read-only or idempotent call is made again in its place", async () => {
  const { handler, path, ran } = await cutOff("repeat", { names: ["put", "act", "look"] });
  const seen = await follow(handler, path, 0);
  assertEquals(outline(seen).slice(-7), [
    "turn_resumed",
    "tool_result 0 worked",
    "tool_result 2 worked",
    ...["step_start", "assistant_message", "step_end", "turn_end completed"],
  ]);
  assertEquals(ran, ["put", "look"]);
  const expected = `${UNKNOWN} It may have taken effect: check before calling it again.`;
  assertEquals(await results(handler, path), ["worked", expected, "worked"]);
});

Deno.test("unknown outcome: the remains of such calls are removed before any is made again", async () => {
  const { handler, path, cleared } = await cutOff("repeat", { names: ["put", "act", "look"] });
  await follow(handler, path, 0);
  assertEquals(cleared, ["0 {} before 0 calls", "1 {} before 0 calls"]);
});

for (const decision of ["allow", "deny"] as const) {
  Deno.test(`unknown outcome: the user is asked whether a call is made again, and answers ${decision}`, async () => {
    const { handler, path, ran } = await cutOff("ask", { names: ["act", "look"] });
    await readTurn(handler, path, 0);
    const { approvals } = (await call(handler, "GET", `${path}/approvals`)).body as {
      approvals: { callId: string; name: string; why: string; begun: boolean }[];
    };
    assertEquals(approvals.map(({ callId, name, why, begun }) => ({ callId, name, why, begun })), [{
      callId: "0",
      name: "act",
      why: "The server stopped while it ran: it may have taken effect. If you allow it, it runs again.",
      begun: true,
    }]);
    assertEquals(ran, []);
    const { after } = (await answerCall(handler, path, { callId: "0", decision })).body as {
      after: number;
    };
    assertEquals(outline(await follow(handler, path, after)).at(-1), "turn_end completed");
    assertEquals(ran, decision === "allow" ? ["act"] : []);
    const denied =
      "Cannot run act: the server stopped while it ran, and it may have taken effect: check before " +
      "calling it again. It wasn't run again: the user denied it.";
    assertEquals(await results(handler, path), [
      `${UNKNOWN} It is read-only: call it again if needed.`,
      decision === "allow" ? "worked" : denied,
    ]);
  });
}

Deno.test("unknown outcome: the model is notified if no user can be asked", async () => {
  const { handler, path, ran } = await cutOff("ask", { names: ["act"], unattended: true });
  assertEquals(outline(await follow(handler, path, 0)).at(-1), "turn_end completed");
  assertEquals(ran, []);
  assertEquals((await results(handler, path)).length, 1);
});

Deno.test("unknown outcome: a turn that is interrupted repeatedly ends, and can be continued", async () => {
  const store = memoryStore();
  let requestCount = 0;
  const third = Promise.withResolvers<void>();
  const handler = agent(model([]), { store });
  const path = await newSession(handler);
  const id = path.split("/").at(-1)!;
  await store.commit([
    { type: "events", sessionId: id, after: 0, events: [{ type: "turn_start", input: "q" } as never] },
    { type: "state", sessionId: id, name: "turn", value: {} },
  ]);
  for (let process = 0; process < 5; process++) {
    const stuck = agent(async function* () {
      if (++requestCount === 3) third.resolve();
      await new Promise(() => {});
      yield { type: "text_delta", text: "" };
    }, { store, clock: { now: () => 0, after: () => () => {} } });
    await stuck.attend();
    const seen = await stuck.fetch(request("GET", `${path}/events`));
    for await (const text of seen.body!.pipeThrough(new TextDecoderStream())) {
      if (/"type":"(step_start|turn_end)"/.test(text.split("turn_resumed").at(-1)!)) break;
    }
  }
  // A step begins before its model call.
  await third.promise;
  assertEquals(requestCount, 3);
  const end = (await store.readEvents(id)).at(-1)?.event;
  assertEquals(end?.type, "step_start");
  const last = await follow(agent(model([]), { store }), path, 0);
  const { event } = last.at(-1)!;
  assertEquals(event.type === "turn_end" && [event.reason, event.message], [
    "interrupted",
    "The server stopped during this turn, and 3 more times when it continued. The turn can be continued.",
  ]);
});

Deno.test("recovery: an unreadable session doesn't stop other turns from continuing, and is reported once", async () => {
  const store = memoryStore();
  const errors: unknown[] = [];
  const maker = agent(model([]), { store });
  const paths = [await newSession(maker), await newSession(maker), await newSession(maker)];
  const ids = paths.map((path) => path.split("/").at(-1)!);
  for (const sessionId of ids) {
    await store.commit([
      { type: "events", sessionId, after: 0, events: [{ type: "turn_start", input: "q" } as never] },
      { type: "state", sessionId, name: "turn", value: {} },
    ]);
  }
  const damaged = new StoreError("corrupt", "Cannot read it.");
  const handler = agent(model([]), {
    store: {
      ...store,
      readEvents: (id, options) => id === ids[1] ? Promise.reject(damaged) : store.readEvents(id, options),
    },
    onError: (error) => errors.push(error),
  });
  await handler.attend();
  await handler.attend();
  for (const path of [paths[0]!, paths[2]!]) {
    assertEquals(outline(await follow(handler, path, 0)).at(-1), "turn_end completed");
  }
  assertEquals(errors, [damaged]);
});
