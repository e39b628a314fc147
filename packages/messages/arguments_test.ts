import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { argumentsParser } from "@tare/messages/arguments";
import type { JsonSchema, ToolDefinition } from "@tare/messages";

function tool(parameters?: JsonSchema): ToolDefinition {
  return {
    type: "function",
    function: { name: "f", description: "Does f.", ...(parameters && { parameters }) },
  };
}

const schema: JsonSchema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: { path: { type: "string", description: "A path." }, mode: { enum: ["a", "b"] } },
  required: ["path"],
  additionalProperties: false,
};

Deno.test("argumentsParser() hands valid arguments over, and {} for an empty text", () => {
  assertEquals(argumentsParser(tool(schema))('{"path":"x","mode":"a"}'), {
    ok: true,
    value: { path: "x", mode: "a" },
  });
  assertEquals(argumentsParser(tool())(""), { ok: true, value: {} });
});

Deno.test("argumentsParser() names every fault and teaches the full definition", () => {
  const parse = argumentsParser(tool(schema));
  for (
    const [text, fault] of [
      ['{"mode":"a"}', "the arguments must have required property 'path'"],
      ['{"path":"x","mode":"c"}', 'mode must be "a" or "b"'],
      ['{"path":"x","extra":1}', "must not have 'extra' (it takes path, mode)"],
      ['{"path":1}', "path must be string"],
      ['{"path":', "not valid JSON"],
      ["[1]", "not a JSON object"],
      ["null", "not a JSON object"],
    ] as const
  ) {
    const parsed = parse(text);
    assertEquals(parsed.ok, false);
    if (parsed.ok) continue;
    assertStringIncludes(parsed.problem, fault);
    assertStringIncludes(parsed.problem, JSON.stringify(tool(schema).function));
  }
});

Deno.test("argumentsParser() refuses a tool whose parameters are no schema, naming the tool", () => {
  assertThrows(() => argumentsParser(tool({ type: "strin" })), TypeError, "Cannot use tool f");
});
