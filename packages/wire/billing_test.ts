import { assertEquals } from "@std/assert";
import { readUsage } from "@tare/wire";

const TOKENS = { prompt_tokens: 100, completion_tokens: 5 };
const READ = { promptTokens: 100, cachedTokens: 0, outputTokens: 5 };

Deno.test("readUsage() reads the tier and region that change a price, wherever they are reported", () => {
  const read = (usage: object, reply: object = {}) => {
    const { tier, region } = readUsage({ ...TOKENS, ...usage }, { ...reply })!;
    return [tier, region];
  };
  assertEquals(read({ service_tier: "flex", inference_geo: "us" }), ["flex", "us"]);
  assertEquals(read({}, { service_tier: "priority" }), ["priority", undefined]);
  assertEquals(read({ service_tier: "standard", speed: "fast" }), ["fast", undefined]);
  assertEquals(read({ service_tier: "batch", speed: "fast" }), ["batch and fast", undefined]);
  for (const tier of ["standard", "default", "auto", "on_demand", "", null, 3]) {
    assertEquals(read({ service_tier: tier }, { service_tier: tier }), [undefined, undefined]);
  }
  for (const region of ["global", "not_available", "", null]) {
    assertEquals(read({ inference_geo: region }), [undefined, undefined]);
  }
});

Deno.test("readUsage() reads the cost that a provider reports", () => {
  const cost = (usage: object) => readUsage({ ...TOKENS, ...usage })!.reportedUsd;
  assertEquals([cost({ cost: 0.25 }), cost({ cost: 0 }), cost({})], [0.25, 0, undefined]);
  const byok = { cost: 0.25, cost_details: { upstream_inference_cost: 5 } };
  assertEquals([cost(byok), cost({ ...byok, is_byok: true })], [0.25, 5.25]);
  assertEquals(cost({ cost: { total_cost: 0.5 } }), 0.5);
  assertEquals(cost({ cost_in_usd_ticks: 37_756_000 }), 0.003_775_6);
  assertEquals([cost({ cost: -1 }), cost({ cost: NaN }), cost({ cost: "1" })], [
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("readUsage() counts the provider's own tools, by usage or by the reply's items", () => {
  const tools = (usage: object, reply: object = {}) =>
    readUsage({ ...TOKENS, ...usage }, { ...reply })!.serverTools;
  const counts = { web_search_requests: 3, web_fetch_requests: 0, __proto__: null };
  assertEquals(tools({ server_tool_use: counts }), { web_search: 3 });
  assertEquals(tools({ server_side_tool_usage_details: { x_search_calls: 2 } }), { x_search: 2 });
  assertEquals(tools({ server_tool_use: JSON.parse('{"__proto__": 2, "constructor": 1}') }), {
    constructor: 1,
  });
  const output = [
    { type: "web_search_call", action: { type: "search" } },
    { type: "web_search_call", action: { type: "open_page" } },
    { type: "code_interpreter_call" },
    { type: "shell_call", environment: { type: "container_reference" } },
    { type: "shell_call", environment: { type: "local" } },
    { type: "function_call" },
    { type: "custom_tool_call" },
    { type: "message" },
  ];
  assertEquals(tools({}, { output }), { web_search: 1, code_interpreter: 1, shell: 1 });
  const content = [{ type: "server_tool_use", name: "bash_code_execution" }, { type: "tool_use", name: "x" }];
  assertEquals(tools({}, { content }), { code_execution: 1 });
  // Code that runs with searches is free.
  assertEquals(tools({ server_tool_use: { web_search_requests: 1 } }, { content }), { web_search: 1 });
});

const part = (input: number, output: number, more: object = {}) => ({
  input_tokens: input,
  output_tokens: output,
  ...more,
});

Deno.test("readUsage() counts all reads of a prompt, and compactions and advisors apart", () => {
  const compaction = part(180_000, 3_500, { type: "compaction" });
  const inner = {
    promptTokens: 180_000,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 3_500,
    type: "compaction",
  };
  assertEquals(
    readUsage(part(23_000, 1_000, { iterations: [compaction, part(23_000, 1_000, { type: "message" })] })),
    {
      ...{
        promptTokens: 23_000,
        cachedTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: 1_000,
        innerCalls: [inner],
      },
      firstRead: { promptTokens: 23_000, cachedTokens: 0, cacheWriteTokens: 0, estimated: true },
    },
  );
  const advisor = part(900, 500, { type: "advisor_message", model: "claude-opus-5" });
  const reads = [
    part(400, 90, { type: "message" }),
    advisor,
    part(100, 440, { cache_read_input_tokens: 490 }),
  ];
  // Outside the list, input is that of the first read.
  assertEquals(readUsage(part(400, 530, { iterations: reads })), {
    ...{ promptTokens: 990, cachedTokens: 490, cacheWriteTokens: 0, outputTokens: 530 },
    firstRead: { promptTokens: 400, cachedTokens: 0, cacheWriteTokens: 0 },
    innerCalls: [{
      ...{ promptTokens: 900, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 500 },
      ...{ type: "advisor_message", model: "claude-opus-5" },
    }],
  });
  // A reply may consist of a compaction.
  const alone = readUsage(part(0, 0, { iterations: [compaction] }));
  assertEquals([alone?.promptTokens, alone?.innerCalls], [0, [inner]]);
  assertEquals(readUsage({ ...TOKENS, iterations: [null, 3, {}] }), READ);
  assertEquals(readUsage({ ...TOKENS, iterations: null }), READ);
});

Deno.test("readUsage() reads the model that served a reply in place of the requested one", () => {
  const iterations = [
    part(500, 20, { type: "message", model: "claude-fable-5-2" }),
    part(510, 40, { type: "fallback_message", model: "claude-opus-5" }),
  ];
  assertEquals(readUsage(part(510, 40, { iterations })), {
    ...{ promptTokens: 510, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 40, model: "claude-opus-5" },
    innerCalls: [{
      ...{ promptTokens: 500, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 20 },
      ...{ type: "message", model: "claude-fable-5-2" },
    }],
  });
});
