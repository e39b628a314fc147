import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { ToolDefinition } from "@tare/messages";
import { countToolTokens, hashPiece } from "@tare/messages/internal";
import { compactTool, compactTools } from "@tare/schemas";

const countTokens = (text: string) => text.length;

function tool(name: string): ToolDefinition {
  const path = { type: "string", description: "Where to look, from the root of the workspace." };
  return {
    type: "function",
    function: {
      name,
      description: `Does ${name}, and more.`,
      parameters: { type: "object", properties: { path }, required: ["path"] },
    },
  };
}

const [a, b, c] = [tool("a"), tool("b"), tool("c")];

/** Returns the forms in a series of requests. */
function forms(
  requests: readonly (readonly ToolDefinition[])[],
  options: Partial<Parameters<typeof compactTools>[1]> = {},
) {
  let exposed: ReadonlySet<number> = new Set();
  return requests.map((tools) => {
    const compact = compactTools(tools, { countTokens, minTokens: 0, ...options, exposed });
    exposed = compact.exposed;
    return compact.tools.map((tool) => `${tool.function.name} ${tools.includes(tool) ? "full" : "compact"}`);
  });
}

Deno.test("compactTools() sends tools in full in iteration 1, compact in iteration 2 and later", () => {
  assertEquals(forms([[a, b], [a, b], [a, b]]), [
    ["a full", "b full"],
    ["a compact", "b compact"],
    ["a compact", "b compact"],
  ]);
  const again = compactTools([a], { exposed: new Set([hashPiece(a)]), countTokens, minTokens: 0 });
  assertStrictEquals(again.tools[0], compactTool(a));
});

Deno.test("compactTools() sends a late tool in full once", () => {
  assertEquals(forms([[a], [a, b], [a, b, c], [a, b, c]]), [
    ["a full"],
    ["a compact", "b full"],
    ["a compact", "b compact", "c full"],
    ["a compact", "b compact", "c compact"],
  ]);
});

Deno.test("compactTools() sends a changed definition in full once, also one that changes back", () => {
  const changed = { ...a, function: { ...a.function, description: "Does something else." } };
  assertEquals(forms([[a, b], [changed, b], [changed, b], [{ ...a }, b]]), [
    ["a full", "b full"],
    ["a full", "b compact"],
    ["a compact", "b compact"],
    ["a compact", "b compact"],
  ]);
});

Deno.test("compactTools() sends tools that were never called in full if called is given", () => {
  assertEquals(forms([[a, b], [a, b]], { called: new Set(["b", "unknown"]) }), [
    ["a full", "b full"],
    ["a full", "b compact"],
  ]);
});

Deno.test("compactTools() remembers a tool that is not offered for a while", () => {
  assertEquals(forms([[a, b], [b], [a, b]]), [["a full", "b full"], ["b compact"], [
    "a compact",
    "b compact",
  ]]);
});

Deno.test("compactTools() retains the ordering of the tools", () => {
  assertEquals(forms([[c, a, b], [b, c, a]]), [
    ["c full", "a full", "b full"],
    ["b compact", "c compact", "a compact"],
  ]);
});

Deno.test("compactTools() never compacts the tools that alwaysFull names", () => {
  assertEquals(forms([[a, b], [a, b]], { alwaysFull: ["b", "unknown"] }), [
    ["a full", "b full"],
    ["a compact", "b full"],
  ]);
});

Deno.test("compactTools() doesn't compact small tool sets, and exposes them", () => {
  const tokens = countToolTokens(a, countTokens);
  const full = [["a full"], ["a full"]];
  assertEquals(forms([[a], [a]], { minTokens: tokens + 1 }), full);
  assertEquals(forms([[a], [a]], { minTokens: tokens }), [["a full"], ["a compact"]]);
  const { exposed, tokensBefore, tokensAfter } = compactTools([a], { exposed: new Set(), countTokens });
  assertEquals([exposed, tokensBefore, tokensAfter], [new Set([hashPiece(a)]), tokens, tokens]);
});

Deno.test("compactTools() returns the tokens before and after", () => {
  const compact = compactTools([a, b], { exposed: new Set([hashPiece(a)]), countTokens, minTokens: 0 });
  const fullA = countToolTokens(a, countTokens);
  const fullB = countToolTokens(b, countTokens);
  assertEquals([compact.tokensBefore, compact.tokensAfter], [
    fullA + fullB,
    countToolTokens(compactTool(a), countTokens) + fullB,
  ]);
});

Deno.test("compactTools() mutates neither the tools nor the exposed set", () => {
  const exposed = new Set([hashPiece(a)]);
  const tools = [a, b];
  compactTools(tools, { exposed, countTokens, minTokens: 0 });
  assertEquals([exposed, tools], [new Set([hashPiece(a)]), [tool("a"), tool("b")]]);
});

Deno.test("compactTools() rejects a minTokens that is negative or not a number", () => {
  for (const minTokens of [-1, NaN]) {
    assertThrows(
      () => compactTools([a], { exposed: new Set(), countTokens, minTokens }),
      RangeError,
      `minTokens is ${minTokens}; it must be a number of 0 or more`,
    );
  }
});
