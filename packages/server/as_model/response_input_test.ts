import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { ApiError, type ResponseBody, ResponseEventWriter } from "@tare/wire/internal";
import { readResponseInput } from "./responses.ts";
import type { InputItem } from "./responses_schema.ts";
import { storedResponse } from "./stored_responses.ts";

const HEX = "0123456789abcdef0123456789abcdef";
const store = memoryStore();
const response: ResponseBody = {
  ...ResponseEventWriter.empty({ model: "agent" }, { id: `resp_${HEX}`, createdAtMs: 0 }),
  output: [
    { id: `rs_${HEX}_0`, type: "reasoning", status: "completed", summary: [] },
    {
      id: `msg_${HEX}_1`,
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "a", annotations: [], logprobs: [] }],
    },
  ],
};
await store.commit([
  { type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} },
  storedResponse({ response, point: { sessionId: "s", messages: 3 } }),
]);

const read = (input: string | InputItem[], instructions: string | null = null) =>
  readResponseInput({ model: "agent", input, instructions }, { store });
const user = { role: "user", content: "q" } as const;

Deno.test("readResponseInput() reads text, messages and instructions", async () => {
  assertEquals(await read("q", "i"), { instructions: "i", dialogue: [user] });
  assertEquals(
    await read([
      { role: "developer", content: "d" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "1" }] },
      { role: "assistant", content: [{ type: "output_text", text: "2" }, { type: "refusal", refusal: "3" }] },
      user,
    ], "i"),
    {
      instructions: "i\n\nd",
      dialogue: [
        { role: "user", content: [{ type: "text", text: "1" }] },
        { role: "assistant", content: "2\n3" },
        user,
      ],
    },
  );
});

Deno.test("readResponseInput() reads images and files", async () => {
  const { dialogue } = await read([{
    role: "user",
    content: [
      { type: "input_image", image_url: "u", detail: "low" },
      { type: "input_file", file_data: "d", filename: "f" },
    ],
  }]);
  assertEquals(dialogue[0]?.content, [
    { type: "image_url", image_url: { url: "u", detail: "low" } },
    { type: "file", file: { file_data: "d", filename: "f" } },
  ]);
});

Deno.test("readResponseInput() resolves references and omits reasoning", async () => {
  const items: InputItem[] = [
    user,
    { type: "item_reference", id: `rs_${HEX}_0` },
    { id: `msg_${HEX}_1` },
    { type: "reasoning", id: "rs" },
    user,
  ];
  assertEquals((await read(items)).dialogue, [user, { role: "assistant", content: "a" }, user]);
});

Deno.test("readResponseInput() reads calls and their results, also of the previous response", async () => {
  const item = { type: "function_call", call_id: "c", name: "f", arguments: "{}" } as const;
  const output = (call_id: string) => ({
    type: "function_call_output",
    call_id,
    output: [{ type: "input_text" as const, text: "r" }],
  });
  const result = (id: string) => ({
    role: "tool" as const,
    tool_call_id: id,
    content: [{ type: "text" as const, text: "r" }],
  });
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } } as const;
  assertEquals((await read([user, item, output("c")])).dialogue, [
    user,
    { role: "assistant", content: "", tool_calls: [call] },
    result("c"),
  ]);
  const previous: ResponseBody = {
    ...response,
    output: [{ ...item, id: `fc_${HEX}_0`, status: "completed" }],
  };
  const follow = (input: InputItem[]) => readResponseInput({ model: "agent", input }, { store, previous });
  assertEquals((await follow([output("c")])).dialogue, [result("c")]);
  const { message } = await assertRejects(() => follow([user]), ApiError);
  assertEquals(
    message,
    'Cannot answer: the result of "c" is missing; results must directly follow their calls.',
  );
});

Deno.test("readResponseInput() names an unsupported item", async () => {
  const refusal = async (item: InputItem) => {
    const { status, details } = await assertRejects(() => read([user, item]), ApiError);
    return [status, details.param, details.code];
  };
  const unsupported = [400, "input[1]", "unsupported_value"];
  assertEquals(await refusal({ type: "custom_tool_call" }), unsupported);
  const invalid = [400, "input[1]", "invalid_request"];
  assertEquals(await refusal({ type: "function_call_output", call_id: "c" }), invalid);
  assertEquals(await refusal({ type: "function_call", call_id: "c" }), [400, "input", "invalid_request"]);
  assertEquals(await refusal({ type: "message", content: "q" }), invalid);
  assertEquals(await refusal({ role: "user", content: "" }), invalid);
  assertEquals(await refusal({ role: "user", content: [{ type: "input_image" }] }), invalid);
  assertEquals(await refusal({ role: "user", content: [{ type: "input_file", file_url: "u" }] }), invalid);
  assertEquals(await refusal({ type: "item_reference", id: `msg_${HEX}_2` }), [
    404,
    "input",
    "item_not_found",
  ]);
  assertEquals(await refusal({ type: "item_reference" }), [404, "input", "item_not_found"]);
  assertEquals(await refusal({ role: "assistant", content: "a" }), [400, "input", "invalid_request"]);
});
