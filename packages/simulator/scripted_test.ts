import { assertEquals, assertRejects } from "@std/assert";
import { scripted, toolCall } from "@tare/simulator";

const request = { model: "m", messages: [{ role: "user", content: "Hi" }], tools: [] } as const;

Deno.test("scripted() gives its replies in order and fails after the last one", async () => {
  const model = scripted([{ content: "one" }, { content: "two" }]);
  assertEquals([await model(request), await model(request)], [{ content: "one" }, { content: "two" }]);
  await assertRejects(async () => await model(request), Error, "all 2 replies of the script have been given");
});

Deno.test("toolCall() returns a call with arguments as JSON or unchanged text", () => {
  assertEquals(toolCall("f"), { type: "function", function: { name: "f", arguments: "{}" } });
  assertEquals(toolCall("f", { a: 1 }, { id: "x" }), {
    id: "x",
    type: "function",
    function: { name: "f", arguments: '{"a":1}' },
  });
  assertEquals(toolCall("f", "{oops").function.arguments, "{oops");
});
