import { assertEquals, assertNotEquals } from "@std/assert";
import {
  CHAT_PROTOCOL,
  MESSAGES_PROTOCOL,
  type Protocol,
  RESPONSES_PROTOCOL,
  statedFailure,
} from "@tare/wire";
import { requestOf } from "./request_fixture_test.ts";

Deno.test("statedFailure() reads the exit code where clients state it, and nowhere else", () => {
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

Deno.test("each protocol reads what it and its clients state of a call that failed", () => {
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

Deno.test("RESPONSES_PROTOCOL tells a result that failed from one that didn't, in whatever spelling", () => {
  const keys = ([undefined, "completed", "incomplete"] as const).map((status) => {
    const item = { type: "function_call_output", call_id: "c", output: "x", ...(status && { status }) };
    return requestOf({ model: "m", input: [item] }, RESPONSES_PROTOCOL).items.at(-1)?.key;
  });
  assertEquals(keys[0], keys[1]);
  assertNotEquals(keys[1], keys[2]);
});
