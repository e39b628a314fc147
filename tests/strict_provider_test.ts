import { loadTokenizer } from "@tare/tiktoken";
import { assertEquals } from "@std/assert";
import { sourceText } from "./gateway/long_session.ts";
import { startProvider } from "./agents/provider.ts";

const { encode } = await loadTokenizer();
const LONG = sourceText("long", 2_000);
const MESSAGES = { model: "m", max_tokens: 1_000 };
const OBJECT = { type: "object", properties: {} };
const MARK = { cache_control: { type: "ephemeral" } };

/** Returns the usage of prompts in order: prompt tokens, cache reads, cache writes. */
async function usages(path: string, bodies: readonly unknown[]): Promise<readonly (readonly number[])[]> {
  await using provider = await startProvider({ model: () => ({ text: "Yes.", calls: [] }) });
  for (const body of bodies) {
    const answer = await fetch(`${provider.url}${path}`, { method: "POST", body: JSON.stringify(body) });
    await answer.text();
  }
  return provider.calls.map(({ usage: { prompt, cached, written = 0 } }) => [prompt, cached, written]);
}

function tokens(...texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + encode(text).length, 0);
}

Deno.test("startProvider() counts texts, names and arguments, without ids and surrounding JSON", async () => {
  const chat = (id: string) => ({
    model: "m",
    tools: [{ type: "function", function: { name: "look", description: "Looks.", parameters: OBJECT } }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Where?" }] },
      {
        role: "assistant",
        tool_calls: [{ id, type: "function", function: { name: "look", arguments: '{"at":"x"}' } }],
      },
      { role: "tool", tool_call_id: id, content: "Here." },
    ],
  });
  const rendered = tokens(
    `look\nLooks.\n${JSON.stringify(OBJECT)}`,
    "user\nWhere?",
    'assistant\nlook\n{"at":"x"}',
    "tool\nHere.",
  );
  assertEquals(
    await usages("/v1/chat/completions", [chat("a"), chat("call_of_a_much_longer_name")]),
    [[rendered, 0, 0], [rendered, 0, 0]],
  );
  const messages = (id: string) => ({
    ...MESSAGES,
    messages: [
      { role: "user", content: "Look." },
      { role: "assistant", content: [{ type: "tool_use", id, name: "look", input: { at: "x" } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "Here." }] },
    ],
  });
  const blocks = tokens("user\nLook.", "assistant\nlook\nat\nx", "user\nHere.");
  assertEquals(
    await usages("/v1/messages", [messages("a"), messages("toolu_of_a_much_longer_name")]),
    [[blocks, 0, 0], [blocks, 0, 0]],
  );
});

Deno.test("startProvider() caches chat by its prefix, in blocks of 128, for each model", async () => {
  const body = (model: string, ...texts: readonly string[]) => ({
    model,
    messages: texts.map((content) => ({ role: "user", content })),
  });
  const first = tokens(`user\n${LONG}`);
  const second = first + tokens("user\nMore.");
  const blocks = 128 * Math.floor(first / 128);
  assertEquals(
    await usages("/v1/chat/completions", [
      body("a", LONG),
      body("a", LONG, "More."),
      body("b", LONG, "More."),
      body("a", `Other. ${LONG}`),
    ]),
    [[first, 0, 0], [second, blocks, 0], [second, 0, 0], [tokens(`user\nOther. ${LONG}`), 0, 0]],
  );
});

Deno.test("startProvider() caches Messages at breakpoints: 20 blocks back, at most four, for each model", async () => {
  const body = (model: string, blocks: number, breakpoints: readonly number[]) => ({
    ...MESSAGES,
    model,
    messages: [{
      role: "user",
      content: Array.from({ length: blocks }, (_, at) => ({
        type: "text",
        text: at === 0 ? LONG : `Block ${at}.`,
        ...(breakpoints.includes(at) && MARK),
      })),
    }],
  });
  const size = (blocks: number) =>
    tokens(...Array.from({ length: blocks }, (_, at) => `user\n${at === 0 ? LONG : `Block ${at}.`}`));
  assertEquals(
    await usages("/v1/messages", [
      body("a", 2, [0]),
      body("a", 21, [20]),
      body("a", 43, [42]),
      body("a", 43, []),
      body("b", 43, [42]),
      body("a", 43, [0, 1, 2, 3, 4]),
    ]),
    [
      [size(2), 0, size(1)],
      [size(21), size(1), size(21) - size(1)],
      // One block too far from the last breakpoint.
      [size(43), 0, size(43)],
      [size(43), 0, 0],
      [size(43), 0, size(43)],
      [0, 0, 0],
    ],
  );
});

Deno.test("startProvider() shows a deferred tool only at a reference to it", async () => {
  const [plain, late] = ["plain", "late"].map((name) => ({ name, description: LONG, input_schema: OBJECT }));
  const body = (found: boolean) => ({
    ...MESSAGES,
    tools: [plain, { ...late, defer_loading: true }],
    messages: [
      { role: "user", content: [{ type: "text", text: "Where?", ...MARK }] },
      ...(found
        ? [
          { role: "assistant", content: [{ type: "tool_use", id: "a", name: "plain", input: {} }] },
          {
            role: "user",
            content: [{
              type: "tool_result",
              tool_use_id: "a",
              content: [{ type: "tool_reference", tool_name: "late" }],
              ...MARK,
            }],
          },
        ]
        : []),
    ],
  });
  const before = tokens(`plain\n${LONG}\n${JSON.stringify(OBJECT)}`, "user\nWhere?");
  const after = before + tokens("assistant\nplain", `user\n\nlate\n${LONG}\n${JSON.stringify(OBJECT)}`);
  assertEquals(
    await usages("/v1/messages", [
      { ...body(false), tools: [plain] },
      body(false),
      body(true),
    ]),
    [[before, 0, before], [before, before, 0], [after, before, after - before]],
  );
});
