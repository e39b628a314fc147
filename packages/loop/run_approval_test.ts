import { assertEquals, assertMatch } from "@std/assert";
import { type AnsweredCall, type Judge, run, type RunOptions, type TurnApprovals } from "@tare/loop";
import { EMPTY_LEDGER, pinOf } from "@tare/loop/internal";
import type { FileChange, FunctionToolCall, Message, Tool } from "@tare/messages";
import { assertWhole, call, callTools, collect, outline, say, scripted, tool } from "./fixture_test.ts";

const judge: Judge = ({ tool }) => {
  const { name } = tool.definition.function;
  if (name === "drop") return { decision: "deny", reason: "nothing is dropped here." };
  return { decision: name === "write" ? "ask" : "allow" };
};

function noted(...names: string[]) {
  const ran: unknown[] = [];
  const tools = names.map((name) =>
    tool(name, (args) => {
      ran.push([name, args]);
      return `${name} ran`;
    })
  );
  return { ran, tools };
}

async function goOn(
  calls: readonly FunctionToolCall[],
  { answered, judge: own = judge, ...options }:
    & Partial<RunOptions>
    & Pick<TurnApprovals, "judge">
    & { readonly answered: readonly AnsweredCall[] },
) {
  const history: Message[] = [
    { role: "user", content: "Go" },
    { role: "assistant", content: null, tool_calls: calls },
  ];
  const { model, requests } = scripted(say("Done."));
  const { events, result } = await collect(
    run({ model, history, approvals: { judge: own, answered }, ...options }),
  );
  return { events, result, requests };
}

Deno.test("run() leaves a call open that needs an approval, and runs the others of the reply", async () => {
  const { ran, tools } = noted("read", "write", "drop");
  const calls = [call("a", "write", { n: 1 }), call("b", "read"), call("c", "drop"), call("d", "write")];
  const { model } = scripted(callTools(...calls));
  const { events, result } = await collect(
    run({ model, tools, history: [], input: "Go", approvals: { judge } }),
  );
  assertEquals(outline(events).filter((line) => !line.startsWith("tool_result")), [
    "turn_start",
    "step_start",
    "assistant_message",
    ...["tool_call a", "tool_call b", "tool_call c", "tool_call d"],
    "step_end",
    "approval_requested",
    "approval_requested",
    "turn_end approval",
  ]);
  assertEquals(events.filter(({ type }) => type === "approval_requested"), [
    {
      type: "approval_requested",
      step: 1,
      id: "a",
      name: "write",
      arguments: '{"n":1}',
      pin: pinOf(tools[1]!),
    },
    { type: "approval_requested", step: 1, id: "d", name: "write", arguments: "{}", pin: pinOf(tools[1]!) },
  ]);
  assertEquals(ran, [["read", {}]]);
  assertEquals(result.messages.slice(2), [
    { role: "tool", tool_call_id: "b", content: "read ran" },
    { role: "tool", tool_call_id: "c", content: "Cannot run drop: nothing is dropped here.", failed: true },
  ]);
});

Deno.test("run() resumes in the middle of a turn: unanswered calls run, with answers in their place", async () => {
  const { ran, tools } = noted("read", "write");
  const calls = [call("a", "read"), call("b", "read", { n: 2 }), call("c", "write")];
  const reply: Message = { role: "assistant", content: "I look.", tool_calls: calls };
  const answer = (id: string, content: string): Message => ({ role: "tool", tool_call_id: id, content });
  const before: Message[] = [{ role: "user", content: "Before" }, { role: "assistant", content: "Yes." }];
  const opening: Message[] = [{ role: "user", content: "Go" }];
  const ledger = { ...EMPTY_LEDGER, calls: 1, promptTokens: 7 };
  const starts: number[] = [];
  const { model, requests } = scripted(say("Done."));
  const { events, result } = await collect(run({
    ...{ model, tools, approvals: { judge }, history: before },
    resumed: {
      ...{ messages: [...opening, reply, answer("b", "known"), answer("c", "told")], step: 2, ledger },
      calls: calls.slice(0, 1),
    },
    context(given) {
      starts.push(given.turnStart);
      return given;
    },
  }));
  const messages = [...opening, reply, answer("a", "read ran"), answer("b", "known"), answer("c", "told")];
  assertEquals(outline(events), [
    ...["tool_result a", "step_start", "text_delta Done.", "assistant_message", "step_end"],
    "turn_end completed",
  ]);
  assertEquals(events.flatMap((event) => "step" in event ? [event.step] : []), [1, 2, 2, 2, 2]);
  assertEquals([ran, starts], [[["read", {}]], [2]]);
  assertEquals(requests[0]!.messages, [...before, ...messages]);
  assertEquals(result.messages, [...messages, { role: "assistant", content: "Done." }]);
  assertEquals(result.ledger.calls, 2);
});

Deno.test("run() requires an approval before it repeats a call with an unknown outcome, if its judge does", async () => {
  const { ran, tools } = noted("read");
  const reply: Message = { role: "assistant", content: "I look.", tool_calls: [call("a", "read")] };
  const messages: Message[] = [{ role: "user", content: "Go" }, reply];
  const { model } = scripted();
  const asks: Judge = () => ({ decision: "ask", why: "It may have run." });
  const { events, result } = await collect(run({
    ...{ model, tools, history: [] },
    resumed: { messages, step: 3, ledger: EMPTY_LEDGER, calls: reply.tool_calls ?? [], judge: asks },
  }));
  assertEquals(outline(events), ["approval_requested", "turn_end approval"]);
  assertEquals([ran, result.messages, result.text], [[], messages, "I look."]);
});

Deno.test("run() continues with answered calls before the model is called, and runs none that was denied", async () => {
  const { ran, tools } = noted("write");
  const calls = [call("a", "write", { n: 1 }), call("b", "write", { n: 2 })];
  const questionOf = (call: FunctionToolCall) => ({
    id: call.id,
    name: "write",
    arguments: call.function.arguments,
    pin: pinOf(tools[0]!),
  });
  const { events, result, requests } = await goOn(calls, {
    tools,
    answered: [
      { call: calls[0]!, question: questionOf(calls[0]!) },
      { call: calls[1]!, question: questionOf(calls[1]!), denied: "not that one." },
    ],
  });
  assertEquals(outline(events).slice(0, 4).sort(), [
    "step_start",
    "tool_result a",
    "tool_result b error",
    "turn_start",
  ]);
  assertEquals(outline(events).indexOf("step_start"), 3);
  assertEquals(ran, [["write", { n: 1 }]]);
  assertEquals(result.messages, [
    { role: "tool", tool_call_id: "a", content: "write ran" },
    { role: "tool", tool_call_id: "b", content: "Cannot run write: not that one.", failed: true },
    { role: "assistant", content: "Done." },
  ]);
  assertEquals(requests[0]?.messages.length, 4);
});

Deno.test("run() limits an approval to the approved call, and to calls that aren't denied since", async () => {
  const { ran, tools } = noted("write", "drop");
  const answer = async (
    given: FunctionToolCall,
    question: { name: string; arguments: string },
    more?: Tool[],
  ) => {
    const answered = [{ call: given, question: { id: given.id, pin: pinOf(tools[0]!), ...question } }];
    const { result } = await goOn([given], { tools: more ?? tools, answered });
    return String(result.messages[0]?.content);
  };
  const given = call("a", "write", { n: 1 });
  assertMatch(
    await answer(given, { name: "write", arguments: '{"n":2}' }),
    /have changed since the approval/,
  );
  assertMatch(
    await answer(given, { name: "other", arguments: '{"n":1}' }),
    /have changed since the approval/,
  );
  assertMatch(await answer(call("a", "drop"), { name: "drop", arguments: "{}" }), /nothing is dropped here/);
  assertMatch(await answer(given, { name: "write", arguments: '{"n":1}' }, []), /there is no such tool/);
  const { definition, ...write } = tools[0]!;
  const outcome = { ...definition.function, description: "Sends it to all users." };
  const changed = { ...write, definition: { ...definition, function: outcome } };
  const once = { name: "write", arguments: '{"n":1}' };
  assertMatch(await answer(given, once, [changed]), /have changed since the approval/);
  assertMatch(
    await answer(given, once, [{ ...tools[0]!, hints: { n: 1 } }]),
    /have changed since the approval/,
  );
  assertEquals(ran, []);
});

Deno.test("run() passes the permitted access to a tool, and limits an approval to its files", async () => {
  const requests: string[] = [];
  let leadsTo = "/w/a";
  const write = tool("write", (_args, { allows }) => {
    requests.push(...["/w/a", "/w/b"].filter((path) => allows?.(path, "writes")));
    return "ran";
  }, { effects: () => Promise.resolve({ root: "/w", writes: [leadsTo] }) });
  const judging: Judge = async ({ tool, args }) => {
    const effects = await tool.effects!(args);
    return { decision: "ask", effects, allows: (path) => effects.writes!.includes(path) };
  };
  const given = call("a", "write");
  const { model } = scripted(callTools(given));
  const { events } = await collect(
    run({ model, tools: [write], history: [], input: "Go", approvals: { judge: judging } }),
  );
  const question = events.find((event) => event.type === "approval_requested")!;
  assertEquals(question.effects, { root: "/w", writes: ["/w/a"] });
  const options = { tools: [write], answered: [{ call: given, question: question }], judge: judging };
  await goOn([given], options);
  leadsTo = "/w/b";
  const { result } = await goOn([given], options);
  assertMatch(String(result.messages[0]?.content), /have changed since the approval/);
  assertEquals(requests, ["/w/a"]);
});

Deno.test("run() decides on the tool that a call resolves to", async () => {
  const { ran, tools: [write] } = noted("write");
  const general = tool("call_tool", () => "never run", {
    resolve: ({ args }) => ({ tool: write!, args: args as Record<string, unknown> }),
  });
  const given = call("a", "call_tool", { args: { n: 3 } });
  const { model } = scripted(callTools(given));
  const { events } = await collect(
    run({ model, tools: [general], history: [], input: "Go", approvals: { judge } }),
  );
  const question = { id: "a", name: "write", arguments: '{"n":3}', pin: pinOf(write!) };
  assertEquals(events.find(({ type }) => type === "approval_requested"), {
    type: "approval_requested",
    step: 1,
    ...question,
  });
  await goOn([given], { tools: [general], answered: [{ call: given, question }] });
  assertEquals(ran, [["write", { n: 3 }]]);
});

Deno.test("run() reports to the model that no approval is possible, and continues", async () => {
  const { ran, tools } = noted("write");
  const { model } = scripted(callTools(call("a", "write")), say("Then not."));
  const cannotAsk = "no user is present.";
  const { result } = await collect(
    run({ model, tools, history: [], input: "Go", approvals: { judge, cannotAsk } }),
  );
  assertWhole(result);
  assertEquals([result.reason, result.messages[2]?.content, ran], [
    "completed",
    "Cannot run write: no user is present.",
    [],
  ]);
});

Deno.test("run() gives distinct ids to calls whose id is empty, repeated or that of a nested call", async () => {
  const { ran, tools } = noted("write");
  const calls = [call("", "write"), call("x", "write"), call("x", "write"), call("x/1", "write")];
  const { model } = scripted(callTools(...calls));
  const { events, result } = await collect(
    run({ model, tools, history: [], input: "Go", approvals: { judge } }),
  );
  const ids = events.flatMap((event) => event.type === "approval_requested" ? [event.id] : []);
  assertEquals([result.reason, ids.length, new Set(ids).size, ids[1]], ["approval", 4, 4, "x"]);
  assertEquals([ids.includes(""), ids.includes("x/1"), ran], [false, false, []]);
  const reply = result.messages.at(-1);
  assertEquals(reply?.role === "assistant" && reply.tool_calls?.map(({ id }) => id), ids);
});

Deno.test("run() leaves no approval pending when it is stopped, answered calls included", async () => {
  const stopped = new AbortController();
  const { ran, tools } = noted("write");
  const stopping = tool("stop", () => {
    stopped.abort();
    return "stopped";
  });
  const { model } = scripted(callTools(call("a", "write"), call("b", "stop")));
  const { signal } = stopped;
  const turn = run({
    model,
    tools: [...tools, stopping],
    history: [],
    input: "Go",
    approvals: { judge },
    signal,
  });
  const { events, result } = await collect(turn);
  assertWhole(result);
  assertEquals([result.reason, events.some(({ type }) => type === "approval_requested")], [
    "cancelled",
    false,
  ]);

  const given = call("c", "write");
  const answered = [{
    call: given,
    question: { id: "c", name: "write", arguments: "{}", pin: pinOf(tools[0]!) },
  }];
  const late = await goOn([given], { tools, answered, signal });
  assertEquals(late.result.reason, "cancelled");
  assertMatch(String(late.result.messages[0]?.content), /the turn was stopped before it started/);
  assertEquals(ran, []);
});

Deno.test("run() begins calls in their order, however long each decision takes", async () => {
  const { ran, tools } = noted("read", "note");
  const looks: (() => void)[] = [];
  const judging: Judge = async ({ tool }) => {
    if (tool.definition.function.name === "read") {
      // Later calls finish faster, if they run in parallel.
      await new Promise<void>((resolve) => {
        looks.push(resolve);
        setTimeout(() => looks.pop()?.());
      });
    }
    return { decision: "allow" };
  };
  const calls = [call("a", "read", { n: 1 }), call("b", "note", { n: 2 }), call("c", "read", { n: 3 })];
  const { model } = scripted(callTools(...calls), say("Done."));
  await collect(run({ model, tools, history: [], input: "Go", approvals: { judge: judging } }));
  assertEquals(ran, [["read", { n: 1 }], ["note", { n: 2 }], ["read", { n: 3 }]]);
});

function telling(changes: (FileChange | { problem: string } | Error | undefined)[]) {
  const ran: string[] = [];
  const edit = tool("write", (_args, { callId = "" }) => {
    ran.push(callId);
    return { content: "written", error: false, change: CHANGE };
  }, {
    preview() {
      const next = changes.shift();
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
  });
  return { edit, ran };
}

const CHANGE = { path: "a", added: 1, removed: 1, diff: "@@ -1,2 +1,2 @@\n one\n-two\n+three" };

Deno.test("run() requests approval with the change, and not for calls that would fail", async () => {
  const problem = "Cannot edit a: old_text is not in it.";
  const { edit, ran } = telling([CHANGE, { problem }, new Error("The disk is gone."), undefined]);
  const calls = ["a", "b", "c", "d"].map((id) => call(id, "write"));
  const { model } = scripted(callTools(...calls));
  const options = {
    model,
    tools: [edit],
    history: [],
    approvals: { judge },
    limits: { maxParallelTools: 1 },
  };
  const { events, result } = await collect(run({ ...options, input: "Go" }));
  assertEquals(
    events.filter((event) => event.type === "approval_requested").map(({ id, change }) => [id, change]),
    [["a", CHANGE], ["d", undefined]],
  );
  assertEquals(result.messages.slice(2), [
    { role: "tool", tool_call_id: "b", content: problem, failed: true },
    { role: "tool", tool_call_id: "c", content: "The disk is gone.", failed: true },
  ]);
  assertEquals(ran, []);
});

Deno.test("run() requires an approval before it repeats a call that may have taken effect, even if it would fail now", async () => {
  const { edit } = telling([{ problem: "Cannot edit a: old_text is not in it." }]);
  const { model } = scripted(callTools(call("a", "write")));
  const begun: Judge = () => ({ decision: "ask", begun: true });
  const { events } = await collect(
    run({ model, tools: [edit], history: [], input: "Go", approvals: { judge: begun } }),
  );
  assertEquals(outline(events).at(-2), "approval_requested");
});

Deno.test("run() limits an approval to the displayed change, at any position in the file", async () => {
  const given = call("a", "write");
  const answer = async (now: FileChange | { problem: string } | undefined) => {
    const { edit, ran } = telling([now]);
    const question = { id: "a", name: "write", arguments: "{}", pin: pinOf(edit), change: CHANGE };
    const { events, result } = await goOn([given], { tools: [edit], answered: [{ call: given, question }] });
    const outcome = events.find((event) => event.type === "tool_result");
    return [ran.length, result.messages[0]?.content, outcome?.change];
  };
  const moved = { ...CHANGE, diff: "@@ -7,2 +9,2 @@\n else\n-two\n+three" };
  assertEquals(await answer(moved), [1, "written", CHANGE]);
  assertEquals(await answer({ problem: "It would fail." }), [1, "written", CHANGE]);
  // A missing preview is a different change too.
  for (const other of [{ ...CHANGE, diff: "@@ -1,2 +1,2 @@\n one\n-2\n+three" }, undefined]) {
    const [ran, refused] = await answer(other);
    assertEquals(ran, 0);
    assertMatch(String(refused), /have changed since the approval/);
  }
});

Deno.test("run() adds the input after the results of answered calls", async () => {
  const { tools } = noted("write");
  const given = call("a", "write");
  const question = { id: "a", name: "write", arguments: "{}", pin: pinOf(tools[0]!) };
  const answered = [{ call: given, question }];
  const { requests, result } = await goOn([given], { tools, answered, input: "And be brief." });
  const added: Message[] = [
    { role: "tool", tool_call_id: "a", content: "write ran" },
    { role: "user", content: "And be brief." },
  ];
  assertEquals(requests[0]!.messages.slice(2), added);
  assertEquals(result.messages, [...added, { role: "assistant", content: "Done." }]);
});
