import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { type AskedFields, readAsked } from "./client_tools.ts";

const shown = { name: "pick", description: null, parameters: { type: "object" }, strict: true };
const PICK = { type: "function", shown } as const;

const read = (fields: Partial<AskedFields>) =>
  readAsked({ tools: [PICK], toolChoice: undefined, settings: {}, ...fields }, ["read"]);

Deno.test("readAsked() gives the client's tools, and the settings that aren't null", () => {
  const { parameters, strict } = shown;
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

Deno.test("readAsked() names the parameter that it refuses, and says what would be right", () => {
  const refusal = (fields: Partial<AskedFields>) => {
    const { status, message, details } = assertThrows(() => read(fields), ApiError);
    return [status, details.param, message];
  };
  const own = { type: "function", shown: { name: "read" } };
  assertEquals(refusal({ tools: [PICK, own] }), [
    400,
    "tools[1]",
    "Cannot use tools[1]: the agent has a tool read of its own; give yours another name.",
  ]);
  assertEquals(refusal({ tools: [PICK, PICK] }), [
    400,
    "tools[1]",
    'Cannot use tools[1]: there are two named "pick".',
  ]);
  assertEquals(refusal({ tools: [{ type: "web_search" }] }), [
    400,
    "tools[0]",
    "Cannot answer: tools[0] is not supported: it is of type web_search, and the agent calls functions of its clients alone.",
  ]);
  assertEquals(refusal({ tools: [{ type: "function" }] }), [
    400,
    "tools[0]",
    "Cannot use tools[0]: its function is missing.",
  ]);
  assertEquals(refusal({ tools: [], toolChoice: "required" }), [
    400,
    "tool_choice",
    "Cannot use tool_choice: there are no tools that could be called.",
  ]);
  assertEquals(refusal({ toolChoice: { name: "other" } }), [
    400,
    "tool_choice",
    'Cannot use tool_choice: tools has no function "other".',
  ]);
  assertEquals(refusal({ toolChoice: "any" }), [
    400,
    "tool_choice",
    "Cannot answer: tool_choice is not supported: it is auto, none, required or one function of tools.",
  ]);
});
