import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { gateway } from "@tare/gateway";
import {
  BASH,
  chatStep,
  codexOpening,
  codexRequest,
  codexStep,
  execCommand,
  type Json,
  longResult,
  messageItem,
  PATCH,
  spelledByCodex,
} from "./agents_fixture_test.ts";
import { call, chunk, completion, gatewayed, OPTIONS, post, READ, sse } from "./fixture_test.ts";
import {
  functionCall,
  type ResponsesRequest,
  responsesUpstream,
  textItems,
} from "./responses_fixture_test.ts";

const NAMES = Array.from({ length: 8 }, (_, at) => `file${at}.ts`);

async function playCodex(
  tasks: readonly string[],
  cut: (input: readonly Json[]) => readonly Json[] = (it) => it,
) {
  const upstream = responsesUpstream([]);
  const { fetch } = gateway({ ...OPTIONS, fetch: upstream.fetch });
  const ask = async (input: readonly Json[]) => await (await fetch(codexRequest(input)))?.text();
  let input: readonly Json[] = codexOpening(tasks[0]!);
  for (const [at, task] of tasks.slice(1).entries()) {
    for (const name of NAMES) {
      await ask(input);
      const file = `${at}-${name}`;
      const cmd = `cat > ${file} <<EOF\n${longResult(file)}\nEOF`;
      input = [...input, ...codexStep(file, longResult(file), cmd)];
    }
    await ask(input);
    input = [
      ...cut([...input, messageItem("assistant", `Answer ${at}.`, `msg_a${at}`)]),
      messageItem("user", task, `msg_u${at}`),
    ];
  }
  await ask(input);
  return { input, requests: upstream.requests.at(-1)! };
}

const TASKS = ["Find the constants.", "Now sum them up.", "Now write them down.", "What did I ask first?"];

Deno.test("real agents: rules, environments and tasks in user messages are retained", async () => {
  const { input, requests } = await playCodex(TASKS);
  assertEquals(
    requests.input.filter(({ type }) => type === "message"),
    input.filter(({ type }) => type === "message"),
  );
  assertStringIncludes(JSON.stringify(requests.input), "RULE-7: never touch generated files.");
  assert(JSON.stringify(requests).length < JSON.stringify(input).length / 2);
  assertMatch(JSON.stringify(requests.input), /\[elided: /);
});

Deno.test("real agents: an interrupted turn is retained with all its calls", async () => {
  const interrupted = messageItem(
    "user",
    "<turn_aborted>The user interrupted the turn.</turn_aborted>",
    "msg_aborted",
  );
  // Without a final answer the turn ends in the result of its last call.
  const { input, requests } = await playCodex(
    ["Find the constants.", "Continue."],
    (input) => [...input.slice(0, -1), interrupted],
  );
  const shape = (items: readonly Json[]) => items.map(({ type, id, call_id }) => [type, id, call_id]);
  assertEquals(shape(requests.input), shape(input));
  assertMatch(JSON.stringify(requests.input), /\[elided: exec_command result/);
});

const RECALLING = { content: null, tool_calls: [call("recall", { ref: "none" }, "r1")] };
const HELLO = { model: "m", messages: [{ role: "user", content: "Hello." }], tools: [READ] };

Deno.test("usage: the client receives the last call's usage, the ledger records all", async () => {
  const usage = (prompt_tokens: number) => ({
    prompt_tokens,
    completion_tokens: 5,
    total_tokens: prompt_tokens + 5,
  });
  const streamed = (...delta: object[]) => (at: number) =>
    sse(
      ...delta.map((delta) => chunk(delta)),
      chunk({}, "tool_calls" in delta[0]! ? "tool_calls" : "stop"),
      { id: "c", object: "chat.completion.chunk", choices: [], usage: usage(at) },
      "[DONE]",
    );
  const recalls = streamed({ tool_calls: [{ index: 0, ...call("recall", { ref: "none" }, "r1") }] });
  for (
    const [stream, answers] of [
      [false, [(at: number) => completion(RECALLING, at), (at: number) => completion({ content: "Hi" }, at)]],
      [true, [recalls, streamed({ content: "Hi" })]],
    ] as const
  ) {
    const { fetch, ledger } = gatewayed((_, index) => answers[index]!(1000 + 100 * index));
    const options = stream ? { stream, stream_options: { include_usage: true } } : {};
    const text = await (await fetch(post({ ...HELLO, ...options }))).text();
    const usages = Array.from(text.matchAll(/"usage":(\{[^}]*\})/g), ([, json]) => JSON.parse(json!));
    assertEquals(usages, [usage(1100)]);
    const { planned } = await ledger();
    assertEquals([planned.calls, planned.promptTokens, planned.outputTokens], [2, 2100, 10]);
  }
});

Deno.test("usage: the responses API reports the last call's usage, whole and streamed", async () => {
  for (const stream of [false, true]) {
    const upstream = responsesUpstream([[functionCall("recall", { ref: "none" }, "r1")], [
      textItems("Done."),
    ]]);
    const { fetch } = gateway({ ...OPTIONS, fetch: upstream.fetch });
    const tools = [{ type: "function", name: "read", parameters: {} }];
    const response = await fetch(post({ model: "m", input: "Go.", tools, stream }, {}, "/responses"));
    const text = await response?.text() ?? "";
    const last = Math.ceil(JSON.stringify(upstream.requests[1]).length / 4);
    assertEquals(Array.from(text.matchAll(/"input_tokens":(\d+)/g), ([, number]) => Number(number)), [last]);
  }
});

Deno.test("recall: a turn's last call has no recall tool, so that repeated recalls end with a text", async () => {
  const { fetch, seen } = gatewayed(({ body }, index) => {
    const recall = body.tools.some((tool: typeof READ) => tool.function.name === "recall");
    const again = recall && body.messages.at(-1).content !== "More.";
    return completion(
      again ? { tool_calls: [call("recall", { ref: "none" }, `r${index}`)] } : { content: "Done." },
    );
  });
  const answer = await (await fetch(post(HELLO))).json();
  assertEquals(answer.choices[0].message, { role: "assistant", content: "Done." });
  assertEquals([answer.choices[0].finish_reason, seen.length], ["stop", 5]);
  assertEquals(seen.at(-1)?.body.tools, [READ]);
  const roles = seen.at(-1)?.body.messages.map(({ role }: { readonly role: string }) => role);
  assertEquals(roles, ["user", ...Array.from({ length: 4 }, () => ["assistant", "tool"]).flat()]);
  const messages = [...HELLO.messages, answer.choices[0].message, { role: "user", content: "More." }];
  await (await fetch(post({ ...HELLO, messages }))).text();
  assertEquals(seen.at(-1)?.body.messages.slice(0, 9), seen.at(-2)?.body.messages);
});

Deno.test("recall: up to 64 successive recalls of new content are answered", async () => {
  for (const [wanted, answered] of [[11, 11], [100, 64]] as const) {
    const { fetch, seen } = gatewayed(({ body }, index) => {
      const again = index < wanted && body.tools.length > 1;
      return completion(
        again
          ? { tool_calls: [call("recall", { ref: `${index}`.padStart(16, "0") }, `r${index}`)] }
          : { content: "Done." },
      );
    });
    const answer = await (await fetch(post(HELLO))).json();
    assertEquals(answer.choices[0].message, { role: "assistant", content: "Done." });
    assertEquals(seen.length, answered + 1);
  }
});

Deno.test("recall: repeated streamed recalls end with a text in one stream without recalls", async () => {
  const { fetch, seen } = gatewayed(({ body }, index) => {
    if (body.tools.length === 1) {
      return sse(chunk({ role: "assistant", content: "Done." }), chunk({}, "stop"), "[DONE]");
    }
    const recall = { index: 0, ...call("recall", { ref: "none" }, `r${index}`) };
    return sse(chunk({ role: "assistant", tool_calls: [recall] }), chunk({}, "tool_calls"), "[DONE]");
  });
  const text = await (await fetch(post({ ...HELLO, stream: true }))).text();
  const chunks = text.trim().split("\n\n").map((event) => event.slice("data: ".length));
  assertEquals(chunks.pop(), "[DONE]");
  const choices = chunks.map((json) => JSON.parse(json).choices[0]);
  assertEquals(choices.map(({ delta }) => delta.content ?? "").join(""), "Done.");
  assertEquals(choices.map(({ finish_reason }) => finish_reason).filter(Boolean), ["stop"]);
  assertEquals([text.includes("tool_calls"), seen.length], [false, 5]);

  const recalls = Array.from({ length: 4 }, (_, at) => [functionCall("recall", { ref: "none" }, `r${at}`)]);
  const upstream = responsesUpstream([...recalls, [textItems("Done.")]]);
  const { fetch: ask } = gateway({ ...OPTIONS, fetch: upstream.fetch });
  const events = await (await ask(codexRequest(codexOpening("Find the constants."))))?.text() ?? "";
  const { response } = JSON.parse(events.trim().split("data: ").at(-1) ?? "");
  assertEquals(response.output, [textItems("Done.")]);
  assertEquals(upstream.requests.map(({ tools }) => tools?.length), [...Array(4).fill(2), 1]);
});

Deno.test("schemas: descriptions of uncalled tools and of recall are retained", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }, 0));
  const messages: Json[] = [{ role: "user", content: "Find the constants." }];
  for (const name of NAMES) {
    messages.push(...chatStep(name, longResult(name)));
    await (await fetch(post({ model: "m", messages, tools: [BASH, PATCH] }))).text();
  }
  const [bash, patch, recall] = seen.at(-1)?.body.tools ?? [];
  assertEquals(patch, PATCH);
  assertEquals([bash.function.name, bash.function.description], ["bash", undefined]);
  assertStringIncludes(recall.function.description, "Returns content evicted from this conversation");
});

Deno.test("real agents: each item is restored to its first spelling, so that recalls break no prefix", async () => {
  const reasoning = (id: string) => ({
    type: "reasoning",
    id,
    content: [],
    encrypted_content: `gAAAA${id}`,
    status: "completed",
    summary: [],
  });
  /** opencode sends only an item's content. */
  const spelledByOpencode = ({ id: _, status: __, content, ...item }: Json) => ({
    ...item,
    ...(item.type === "reasoning" || !content ? {} : { content }),
  });
  for (const spelled of [spelledByCodex, spelledByOpencode]) {
    const upstream = responsesUpstream([
      [reasoning("rs_1"), functionCall("recall", { ref: "none" }, "r1")],
      [reasoning("rs_2"), textItems("Wait.", "msg_2"), functionCall("recall", { ref: "none" }, "r2")],
      [reasoning("rs_3"), execCommand("a.ts")],
      [textItems("Done.")],
    ]);
    const { fetch } = gateway({ ...OPTIONS, fetch: upstream.fetch });
    const input = codexOpening("Find the constants.");
    await (await fetch(codexRequest(input)))?.text();
    const visible = [
      reasoning("rs_1"),
      reasoning("rs_2"),
      textItems("Wait.", "msg_2"),
      reasoning("rs_3"),
      execCommand("a.ts"),
    ].map((item) => spelled(item));
    const output = { type: "function_call_output", id: "fco_1", call_id: "call_a.ts", output: "one line" };
    await (await fetch(codexRequest([...input, ...visible, output])))?.text();
    const [before, after] = upstream.requests.slice(2) as [ResponsesRequest, ResponsesRequest];
    assertEquals(after.input, [...before.input, ...visible.slice(-2), output]);
  }
});

Deno.test("recall: recalls of several replies appear at their places before and after texts", async () => {
  const upstream = responsesUpstream([
    [
      functionCall("recall", { ref: "none" }, "r1"),
      textItems("One.", "msg_1"),
      functionCall("recall", {}, "r2"),
    ],
    [functionCall("recall", { ref: "none" }, "r3"), execCommand("a.ts")],
    [textItems("Done.")],
  ]);
  const { fetch } = gateway({ ...OPTIONS, fetch: upstream.fetch });
  const input = codexOpening("Find the constants.");
  await (await fetch(codexRequest(input)))?.text();
  const visible = [textItems("One.", "msg_1"), execCommand("a.ts")].map((item) => spelledByCodex(item));
  const output = { type: "function_call_output", id: "fco_1", call_id: "call_a.ts", output: "one line" };
  await (await fetch(codexRequest([...input, ...visible, output])))?.text();
  const [before, after] = upstream.requests.slice(1) as [ResponsesRequest, ResponsesRequest];
  assertEquals(after.input.slice(0, before.input.length), before.input);
  const rest = after.input.slice(before.input.length).map(({ type, call_id }) => `${type} ${call_id}`);
  assertEquals(rest, [
    "function_call r3",
    "function_call_output r3",
    "function_call call_a.ts",
    "function_call_output call_a.ts",
  ]);
});

Deno.test("sessions: a session resumed by Codex with respelled items continues", async () => {
  const upstream = responsesUpstream([]);
  const { fetch } = gateway({ ...OPTIONS, fetch: upstream.fetch });
  const ask = async (input: readonly Json[]) => {
    const response = await fetch(codexRequest(input));
    await response?.text();
    return response?.headers.get("x-tare-session");
  };
  let input: readonly Json[] = codexOpening("Find the constants.");
  const session = await ask(input);
  for (const name of NAMES) {
    input = [...input, ...codexStep(name, longResult(name))];
    assertEquals(await ask(input), session);
  }
  const respelled = input.map((item) => item.type === "reasoning" ? { ...item, content: null } : item);
  const message = { type: "message", status: "completed", role: "assistant", content: "Done." };
  assertEquals(await ask([...respelled, message, { role: "user", content: "Continue." }]), session);
  const outputs = ({ input }: ResponsesRequest) => input.flatMap(({ output }) => output ?? []);
  const [before, after] = upstream.requests.slice(-2).map(outputs);
  assertMatch(String(before?.[0]), /^\[elided: exec_command result/);
  // A new turn may evict more, and evictions remain.
  for (const [at, output] of before!.entries()) {
    if (after?.[at] !== output) {
      assertMatch(String(after?.[at]), /^\[elided: exec_command result/);
      assert(!String(output).startsWith("[elided: "), `${at}`);
    }
  }
});
