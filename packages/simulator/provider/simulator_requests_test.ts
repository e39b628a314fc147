import { assertEquals, assertRejects } from "@std/assert";
import { readCompletionRequest } from "./simulator.ts";
import { ApiError } from "@tare/wire";

function post(body: unknown): Request {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return new Request("http://provider/v1/chat/completions", { method: "POST", body: text });
}

async function refusal(body: unknown) {
  const error = await assertRejects(() => readCompletionRequest(post(body)), ApiError);
  const answer = (await error.toResponse().json()).error;
  return [error.status, answer.message, answer.param];
}

const user = { role: "user", content: "Hi" };
const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "ok" });

Deno.test("readCompletionRequest() reads a request and fills in what is left out", async () => {
  assertEquals(await readCompletionRequest(post({ model: "m", messages: [user] })), {
    model: "m",
    messages: [user as { role: "user"; content: string }],
    tools: [],
    stream: false,
    includeUsage: false,
    cacheKey: "",
  });
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];
  const body = { model: "m", messages: [user], tools, stream: true, stream_options: { include_usage: true } };
  const keyed = await readCompletionRequest(post({ ...body, prompt_cache_key: "k" }));
  assertEquals(keyed.cacheKey, "k");
  const { stream, includeUsage, tools: read } = await readCompletionRequest(
    post({ ...body, temperature: 0 }),
  );
  assertEquals([stream, includeUsage, read], [true, true, tools]);
});

Deno.test("readCompletionRequest() names what is wrong with a body", async () => {
  for (
    const [body, fault] of [
      [[], "the body must be object"],
      [{}, "the body must have required property 'model'; the body must have required property 'messages'"],
      [
        { model: "", messages: [] },
        "model must not be empty; messages must not be empty",
      ],
      [{ model: "m", messages: [{ role: "user" }] }, "messages.0 must have required property 'content'"],
      [
        { model: "m", messages: [{ ...user, content: 5 }] },
        "messages.0.content must be string, array or null",
      ],
      [
        { model: "m", messages: [{ role: "tool", content: "" }] },
        "messages.0 must have required property 'tool_call_id'",
      ],
      [{ model: "m", messages: [user], n: 2 }, "n must be 1 or null"],
      [
        { model: "m", messages: [{ role: "assistant", tool_calls: [{ id: "a", type: "function" }] }] },
        "messages.0.tool_calls.0 must have required property 'function'",
      ],
      [
        { model: "m", messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
        "messages.0.content.0.image_url must have required property 'url'",
      ],
      [
        { model: "m", messages: [user], tools: [{ type: "function" }] },
        "tools.0 must have required property 'function'",
      ],
    ]
  ) {
    assertEquals(await refusal(body), [400, `Cannot read the request: ${fault}.`, null]);
  }
  const [status, message] = await refusal("{");
  assertEquals([status, message.startsWith("Cannot read the request: its body is not JSON (")], [400, true]);
});

Deno.test("readCompletionRequest() takes parallel calls, answers out of order, equal and empty ids", async () => {
  const messages = [
    user,
    { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
    result("b"),
    result("a"),
    { role: "assistant", content: "", tool_calls: [call(""), call("")] },
    result(""),
    result(""),
    { role: "assistant", content: "Done." },
  ];
  assertEquals(
    (await readCompletionRequest(post({ model: "m", messages }))).messages.length,
    messages.length,
  );
});

Deno.test("readCompletionRequest() refuses broken pairs of calls and results", async () => {
  const calling = { role: "assistant", tool_calls: [call("a"), call("b")] };
  const lacking = (ids: string) =>
    `An assistant message with 'tool_calls' must be followed by a tool message for each 'tool_call_id'; without a response: ${ids}.`;
  const stray = (id: string) =>
    `A message with role 'tool' must be a response to a preceding message with 'tool_calls'; none is open with the id "${id}".`;
  for (
    const [messages, message, at] of [
      [[user, result("a")], stray("a"), 1],
      [[user, calling], lacking("a, b"), 2],
      [[user, calling, result("a"), user, result("b")], lacking("b"), 3],
      [[user, calling, result("a"), result("a"), result("b")], stray("a"), 3],
      [[user, calling, result("a"), result("b"), result("b")], stray("b"), 4],
      [[user, calling, result("c")], stray("c"), 2],
    ] as const
  ) {
    assertEquals(await refusal({ model: "m", messages }), [400, message, `messages.[${at}].role`]);
  }
});
