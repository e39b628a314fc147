import { assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { claudeGateway } from "./claude_code_fixture_test.ts";
import { completion, gatewayed, post } from "./fixture_test.ts";

const user = (content: string) => ({ role: "user", content });
const messages = [user("Mend it."), { role: "assistant", content: "Yes." }, user("Go on.")];
const tool = (name: string, more: object = {}) => ({
  type: "function",
  function: { name, description: `Does ${name}.`, parameters: { type: "object", properties: {} }, ...more },
});

function sentTools(options: Parameters<typeof gatewayed>[1] = {}) {
  const { fetch, seen } = gatewayed(() => completion({ content: "Yes." }), { recall: false, ...options });
  const ask = async (tools: readonly object[], headers: Record<string, string> = {}) => {
    await (await fetch(post({ model: "m", messages: messages, tools }, headers))).text();
    return seen.at(-1)!;
  };
  return { ask, names: async (...args: Parameters<typeof ask>) => namesOf((await ask(...args)).body.tools) };
}

const namesOf = (tools: readonly { readonly function: { readonly name: string } }[]) =>
  tools.map((one) => one.function.name).join(" ");

Deno.test("tools: their first order is retained, and new tools follow", async () => {
  const { names, ask } = sentTools();
  const [a, b, c, d] = ["a", "b", "c", "d"].map((name) => tool(name));
  assertEquals(await names([a!, b!, c!]), "a b c");
  assertEquals(await names([c!, a!, b!]), "a b c");
  assertEquals(await names([b!, a!]), "a b");
  assertEquals(await names([d!, c!, b!, a!]), "a b c d");
  const { body } = await ask([c!, tool("b", { description: "Does more." }), a!]);
  assertEquals([namesOf(body.tools), body.tools[1].function.description], ["a b c", "Does more."]);
  // Tools with the same name are ambiguous.
  assertEquals(await names([b!, a!, a!]), "b a a");
});

Deno.test("tools: their first spelling is retained, and unchanged bodies are forwarded as bytes", async () => {
  const first = [tool("a"), tool("b")];
  const turned = JSON.parse(
    `[{"function":{"parameters":{"properties":{},"type":"object"},"description":"Does b.","name":"b"},"type":"function"},${
      JSON.stringify(first[0])
    }]`,
  );
  const { ask } = sentTools();
  const before = await ask(first);
  const after = await ask(turned);
  assertEquals(JSON.stringify(after.body.tools), JSON.stringify(before.body.tools));
  const left: readonly { readonly headers?: Record<string, string>; readonly holdout?: number }[] = [
    { headers: { "x-tare": "dry-run" } },
    { headers: { "x-tare": "off" } },
    { holdout: 1 },
  ];
  for (const { headers = {}, holdout = 0 } of left) {
    const own = sentTools({ holdout });
    await own.ask(first, headers);
    const { body } = await own.ask(turned, headers);
    assertEquals(JSON.stringify(body.tools), JSON.stringify(turned));
  }
});

async function sentMessages(
  requests: readonly { readonly tools?: readonly object[]; readonly system?: unknown }[],
  { baseURL = "http://claude.example/v1", headers = {} }: {
    readonly baseURL?: string;
    readonly headers?: Record<string, string>;
  } = {},
) {
  const { fetch, seen } = baseURL.includes("claude.example")
    ? claudeGateway(() => ({ content: "Yes." }))
    : gatewayed(() => Response.json({ type: "message", content: [], usage: {} }), {
      upstreams: {
        messages: { baseURL, profile: profileNamed("none"), windowTokens: 100_000 },
      },
    });
  for (const request of requests) {
    const body = { model: "m", max_tokens: 9, messages: messages, ...request };
    await (await fetch(post(body, { "anthropic-version": "2023-06-01", ...headers }, "/messages"))).text();
  }
  return seen.map(({ body }) => body);
}

Deno.test("tools: cache breakpoints retain their positions when tools are reordered", async () => {
  const mark = { cache_control: { type: "ephemeral" } };
  const named = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });
  const bodies = await sentMessages([
    { tools: [named("a"), named("b", mark)] },
    { tools: [named("b"), named("a", mark)] },
    { tools: [named("c"), named("b"), named("a", mark)] },
  ]);
  const breakpoints = bodies.map(({ tools }) =>
    tools.slice(0, -1).map((one: { readonly name: string; readonly cache_control?: object }) =>
      one.name + (one.cache_control ? "!" : "")
    ).join(" ")
  );
  assertEquals(breakpoints, ["a b!", "a b!", "a b c!"]);
});

Deno.test("gateway() fixes the billing number in instructions, which only Anthropic removes", async () => {
  const line = (number: string) => `x-anthropic-billing-header: cc_version=2.3.4; cch=${number};`;
  const systemOf = (
    number: string,
  ) => [{ type: "text", text: line(number) }, { type: "text", text: "Be brief." }];
  const requests = ["a1b", "c2d"].map((number) => ({ system: systemOf(number) }));
  const sentCount = async (options: Parameters<typeof sentMessages>[1] = {}) =>
    (await sentMessages(requests, options)).map(({ system }) => system[0].text);
  assertEquals(await sentCount(), [line("000"), line("000")]);
  assertEquals(await sentCount({ headers: { "x-tare": "dry-run" } }), [line("a1b"), line("c2d")]);
  assertEquals(await sentCount({ baseURL: "https://api.anthropic.com/v1" }), [line("a1b"), line("c2d")]);
  const [body] = await sentMessages([{ system: line("a1b") }]);
  assertEquals(body.system, line("000"));
});
