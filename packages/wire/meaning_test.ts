import { assertEquals, assertNotEquals } from "@std/assert";
import {
  CHAT_PROTOCOL,
  MESSAGES_PROTOCOL,
  type Protocol,
  RESPONSES_PROTOCOL,
  statedFailure,
} from "@tare/wire/internal";
import { requestOf } from "./request_fixture_test.ts";

Deno.test("statedFailure() reads the exit code only in its usual places", () => {
  const cases: readonly (readonly [string, boolean | undefined])[] = [
    ["Exit code 1\nlint failed", true],
    ["Exit code: 0\nWall time: 0 seconds\nOutput:\nError: none", false],
    ["Exit code: -1", true],
    [
      "Chunk ID: a6\nWall time: 0.6 seconds\nProcess exited with code 0\nOriginal token count: 3\nOutput:\nx",
      false,
    ],
    ["Chunk ID: a6\nWall time: 0.6 seconds\nProcess exited with code 128\nOutput:\nx", true],
    ["a.ts: error\n\n\nCommand exited with code 2", true],
    [JSON.stringify({ output: "x", metadata: { exit_code: 7, duration_seconds: 1 } }), true],
    [JSON.stringify({ stdout: "x", exitCode: 0 }), false],
    ["The log says:\n1\n2\n3\n4\nExit code: 1", undefined],
    ["1\n2\n3\n4\n5\nProcess exited with code 1", undefined],
    ["Exit code 1 is what it gave.", undefined],
    ["Command exited with code 2\nand so on", undefined],
    [JSON.stringify({ exit_code: "none" }), undefined],
    ['{"exit_code": 1', undefined],
    [JSON.stringify([{ exit_code: 1 }]), undefined],
    ["Error: a guess", undefined],
    ["", undefined],
  ];
  assertEquals(cases.map(([text]) => [text, statedFailure(text).failed]), cases.map(([...one]) => one));
  assertEquals(statedFailure([{ type: "text", text: "Exit code 1" }]), { failed: true });
  assertEquals([true, false].map((flag) => statedFailure("Exit code 1", flag).failed), [true, false]);
});

Deno.test("each protocol reads failures reported by itself and its clients", () => {
  const failed = (protocol: Protocol, value: unknown) => {
    const { message } = protocol.readItem(value)[0]!;
    return message.role === "tool" ? message.failed : "no result";
  };
  const block = (content: unknown, more: object = {}) =>
    failed(MESSAGES_PROTOCOL, {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "c", content, ...more }],
    });
  assertEquals([
    block("File not found.", { is_error: true }),
    block([{ type: "text", text: "Error: quoted" }], { is_error: false }),
    block("Exit code 1", { is_error: false }),
    block("Exit code 1"),
    block("Error: a guess"),
  ], [true, false, false, true, undefined]);
  const output = (output: unknown, more: object = {}) =>
    failed(RESPONSES_PROTOCOL, { type: "function_call_output", call_id: "c", output, ...more });
  assertEquals([
    output("Half of", { status: "incomplete" }),
    output("Error: a guess", { status: "completed" }),
    output([{ type: "input_text", text: "Exit code: 0\nOutput:\nError: quoted" }]),
    output(JSON.stringify({ output: "", metadata: { exit_code: 2 } }), { type: "custom_tool_call_output" }),
  ], [true, undefined, false, true]);
  const result = (content: unknown) => failed(CHAT_PROTOCOL, { role: "tool", tool_call_id: "c", content });
  assertEquals([
    result(JSON.stringify({ output: "", metadata: { exit_code: 2 } })),
    result("Exit code: 0\nError: quoted"),
    result("Error: a guess"),
  ], [true, false, undefined]);
});

Deno.test("RESPONSES_PROTOCOL detects failed results in any spelling", () => {
  const keys = ([undefined, "completed", "incomplete"] as const).map((status) => {
    const item = { type: "function_call_output", call_id: "c", output: "x", ...(status && { status }) };
    return requestOf({ model: "m", input: [item] }, RESPONSES_PROTOCOL).items.at(-1)?.key;
  });
  assertEquals(keys[0], keys[1]);
  assertNotEquals(keys[1], keys[2]);
});

function keysOf(protocol: Protocol, items: readonly unknown[]): string[] {
  const request = requestOf({ model: "m", [protocol.listField]: items }, protocol);
  return request.items.filter(({ bytes }) => bytes).map(({ key }) => key);
}

const chatCall = (id: string, args = '{"a":1,"b":2}', name = "read") => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id, type: "function", function: { name, arguments: args } }],
});
const chatResult = (id: string, content: unknown = "A.") => ({ role: "tool", tool_call_id: id, content });
const chatImage = (url: string) => ({ role: "user", content: [{ type: "image_url", image_url: { url } }] });
const call = (id: string, args = '{"a":1}') => ({
  type: "function_call",
  call_id: id,
  name: "read",
  arguments: args,
});
const output = (id: string, text: unknown = "A.") => ({
  type: "function_call_output",
  call_id: id,
  output: text,
});
const thought = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" };
const use = (id: string, input: unknown = { a: 1 }, name = "read") => ({ type: "tool_use", id, name, input });
const reply = (...content: readonly unknown[]) => ({ role: "assistant", content });
const user = (...content: readonly unknown[]) => ({ role: "user", content });
const result = (id: string, content: unknown = "A.") => ({ type: "tool_result", tool_use_id: id, content });
const image = (data: string) => ({
  type: "image",
  source: { type: "base64", media_type: "image/png", data },
});

/** Equal histories, then different ones. */
const HISTORIES:
  readonly (readonly [Protocol, { readonly alike: unknown[][]; readonly others: unknown[][] }])[] = [
    [CHAT_PROTOCOL, {
      alike: [
        [{ role: "user", content: "Go." }, chatCall("call_a_1"), chatResult("call_a_1")],
        [
          { content: [{ type: "text", text: "Go.\n" }], role: "user", name: null },
          { ...chatCall("calla1", '{ "b": 2, "a": 1 }'), content: "", refusal: null, annotations: [] },
          { ...chatResult("calla1", [{ type: "text", text: " A." }]), __noted: { by: "x" } },
        ],
        [
          { role: "user", content: "Go." },
          { ...chatCall("1"), reasoning_content: "Hm." },
          chatResult("1", "A. "),
        ],
      ],
      others: [
        [{ role: "user", content: "Go" }, chatCall("c"), chatResult("c")],
        [{ role: "user", content: "Go." }, chatCall("c", '{"a":1}'), chatResult("c")],
        [{ role: "user", content: "Go." }, chatCall("c", '{"a":1,"b":"2"}'), chatResult("c")],
        [{ role: "user", content: "Go." }, chatCall("c", '{"a":1,"b":2}', "write"), chatResult("c")],
        [{ role: "user", content: "Go." }, chatCall("c"), chatResult("c", "A\n.")],
        [{ role: "user", content: "Go." }, chatCall("c"), chatResult("of another call")],
        [{ ...chatImage("data:a") }, chatCall("c"), chatResult("c")],
        [{ ...chatImage("data:b") }, chatCall("c"), chatResult("c")],
      ],
    }],
    [RESPONSES_PROTOCOL, {
      alike: [
        [{ role: "user", content: "Go." }, thought, { id: "fc_1", ...call("call_1") }, output("call_1")],
        [
          { type: "message", role: "user", content: [{ type: "input_text", text: "Go." }], id: "msg_1" },
          { ...call("c", '{"a": 1}'), status: "completed" },
          { ...output("c", [{ type: "input_text", text: "A.\n" }]), status: null },
        ],
        ["Go.", thought, { ...thought, id: "rs_2" }, call("x"), output("x")],
      ],
      others: [
        ["Go!", call("c"), output("c")],
        ["Go.", call("c", '{"a":2}'), output("c")],
        ["Go.", call("c"), output("c", "B.")],
        ["Go.", call("c"), { ...output("c"), status: "failed" }],
        ["Go.", { type: "custom_tool_call", call_id: "c", name: "read", input: '{"a":1}' }, output("c")],
      ],
    }],
    [MESSAGES_PROTOCOL, {
      alike: [
        [{ role: "user", content: "Go." }, reply(use("toolu_1")), user(result("toolu_1"))],
        [
          user({ type: "text", text: "Go. ", cache_control: { type: "ephemeral" } }),
          reply({ type: "thinking", thinking: "Hm.", signature: "s" }, use("1")),
          user({ ...result("1", [{ type: "text", text: "A." }]), cache_control: { type: "ephemeral" } }),
        ],
      ],
      others: [
        [{ role: "user", content: "Go" }, reply(use("1")), user(result("1"))],
        [{ role: "user", content: "Go." }, reply(use("1", { a: null })), user(result("1"))],
        [{ role: "user", content: "Go." }, reply(use("1", { a: 1 }, "write")), user(result("1"))],
        [{ role: "user", content: "Go." }, reply(use("1")), user(result("1", [image("a")]))],
        [{ role: "user", content: "Go." }, reply(use("1")), user(result("1", [image("b")]))],
        [{ role: "user", content: "Go." }, reply(use("1")), user({ ...result("1"), is_error: true })],
      ],
    }],
  ];

for (const [protocol, { alike, others }] of HISTORIES) {
  Deno.test(`${protocol.name} items: equal keys for equal meaning only`, () => {
    const [first, ...same] = alike.map((items) => keysOf(protocol, items));
    for (const keys of same) assertEquals(keys, first);
    const names = [first, ...others.map((items) => keysOf(protocol, items))].map((keys) =>
      JSON.stringify(keys)
    );
    assertEquals(new Set(names).size, names.length);
  });
}

Deno.test("call pairing: any ids, within one reply and across several with the same ids", () => {
  const calls = (...ids: string[]) => ({
    role: "assistant",
    content: null,
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "read", arguments: "{}" } })),
  });
  const answers = (...ids: string[]) => ids.map((id, at) => chatResult(id, `${at}`));
  const history = [calls("a", "b"), ...answers("a", "b"), calls("c"), ...answers("c")];
  const reused = [calls("0", "1"), ...answers("0", "1"), calls("0"), ...answers("0")];
  const crossed = [calls("a", "b"), ...answers("b", "a"), calls("c"), ...answers("c")];
  const [one, two, three] = [history, reused, crossed].map((items) => keysOf(CHAT_PROTOCOL, items));
  assertEquals(two, one);
  assertEquals([three![0], three![1] === one![1]], [one![0], false]);
});

Deno.test("call arguments: numbers beyond double precision are compared as text", () => {
  const keys = ["12345678901234567890", "12345678901234567891", "1e999", "2e999"].map((number) =>
    keysOf(CHAT_PROTOCOL, [chatCall("c", `{"a":${number}}`)])[0]
  );
  assertEquals(new Set(keys).size, 4);
});
