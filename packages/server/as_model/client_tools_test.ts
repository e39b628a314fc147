import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { readToolFields, type ToolFields } from "./client_tools.ts";

const spec = { name: "pick", description: null, parameters: { type: "object" }, strict: true };
const PICK = { type: "function", spec } as const;

const read = (fields: Partial<ToolFields>) =>
  readToolFields({ tools: [PICK], toolChoice: undefined, settings: {}, ...fields }, ["read"]);

Deno.test("readToolFields() returns the client's tools and the settings other than null", () => {
  const { parameters, strict } = spec;
  const clientTools = [{ type: "function", function: { name: "pick", parameters, strict } }] as const;
  const settings = { temperature: null, top_p: 0, seed: undefined };
  assertEquals(read({ settings }), { clientTools, settings: { top_p: 0 } });
  assertEquals(read({ toolChoice: "auto" }), { clientTools, settings: {} });
  assertEquals(read({ toolChoice: "none" }), { clientTools: [], settings: {} });
  assertEquals(read({ toolChoice: "required" }).settings, { tool_choice: "required" });
  assertEquals(read({ toolChoice: { name: "pick" } }).settings, {
    tool_choice: { type: "function", function: { name: "pick" } },
  });
});

Deno.test("readToolFields() names a refused parameter and the accepted values", () => {
  const refusal = (fields: Partial<ToolFields>) => {
    const { status, message, details } = assertThrows(() => read(fields), ApiError);
    return [status, details.param, message];
  };
  const own = { type: "function", spec: { name: "read" } };
  assertEquals(refusal({ tools: [PICK, own] }), [
    400,
    "tools[1]",
    "Cannot use tools[1]: the agent has its own tool read; rename yours.",
  ]);
  assertEquals(refusal({ tools: [PICK, PICK] }), [
    400,
    "tools[1]",
    'Cannot use tools[1]: two tools are named "pick".',
  ]);
  assertEquals(refusal({ tools: [{ type: "web_search" }] }), [
    400,
    "tools[0]",
    "Cannot answer: tools[0] is not supported: it is of type web_search, and the agent calls only functions of its clients.",
  ]);
  assertEquals(refusal({ tools: [{ type: "function" }] }), [
    400,
    "tools[0]",
    "Cannot use tools[0]: its function is missing.",
  ]);
  assertEquals(refusal({ tools: [], toolChoice: "required" }), [
    400,
    "tool_choice",
    "Cannot use tool_choice: there are no tools to call.",
  ]);
  assertEquals(refusal({ toolChoice: { name: "other" } }), [
    400,
    "tool_choice",
    'Cannot use tool_choice: tools has no function "other".',
  ]);
  assertEquals(refusal({ toolChoice: "any" }), [
    400,
    "tool_choice",
    "Cannot answer: tool_choice is not supported: it must be auto, none, required or one function of tools.",
  ]);
});
