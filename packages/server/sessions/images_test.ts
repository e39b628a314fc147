import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import type { AssistantMessage, Content, Model, ModelRequest, Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agent, call, echo, newSession, turn } from "../fixture_test.ts";

const url = "data:image/png;base64,AAAA";

const look: Tool = {
  definition: { type: "function", function: { name: "look" } },
  stance: "rederivable",
  run: (_args, { supportsImages }) =>
    supportsImages ? { content: "a picture", error: false, images: [url] } : "none is shown",
};

const visible: Content = [{ type: "text", text: "a picture" }, { type: "image_url", image_url: { url } }];

function recorded(replies: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[requests.length] };
    requests.push(request);
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  return { model, requests };
}

const looks = {
  tool_calls: [{ id: "1", type: "function", function: { name: "look", arguments: "{}" } }],
} as const;

Deno.test("images: a model that receives images gets those of results, after a restart too; other models don't", async () => {
  const store = memoryStore();
  const { model, requests } = recorded([looks, { content: "seen" }, { content: "again" }]);
  // While its cache lives, so short a prompt isn't worth a rewrite.
  const options = {
    store,
    profile: profileNamed("openai"),
    tools: [look],
    supportsImages: (name: string) => name === "scripted",
  };
  const handler = agent(model, options);
  const session = await newSession(handler);
  const events = await turn(handler, session, "Look");
  assertEquals(events.flatMap(({ event }) => event.type === "tool_result" ? [event.images] : []), [[url]]);
  const results = () =>
    requests.at(-1)!.messages.flatMap(({ role, content }) => role === "tool" ? [content] : []);
  assertEquals(results(), [visible]);
  const restarted = agent(model, options);
  await turn(restarted, session, "And now?");
  assertEquals(results(), [visible]);
  const { messages } = (await call(restarted, "GET", session)).body as { messages: { content: unknown }[] };
  assertEquals(messages.filter(({ content }) => Array.isArray(content)).map(({ content }) => content), [
    visible,
  ]);

  const blind = recorded([looks, { content: "told" }]);
  const other = agent(blind.model, options);
  await turn(other, await newSession(other, { model: "blind" }), "Look");
  assertEquals(blind.requests.at(-1)?.messages.at(-1)?.content, "none is shown");
});

const LARGE = "data:image/png;base64," + btoa("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x08\0\0\0\x03\0");

Deno.test("images: an image is evicted like any result, and recalled as an image", async () => {
  const large: Tool = {
    ...look,
    run: () => ({ content: "a large picture", error: false, images: [LARGE] }),
  };
  const requests: ModelRequest[] = [];
  const results = (name: string) =>
    requests.at(-1)!.messages.flatMap((message) =>
      message.role === "tool" && message.tool_call_id.startsWith(name) ? [message.content] : []
    );
  const calling = (name: string, args: object) => ({
    tool_calls: [
      {
        id: `${name}${requests.length}`,
        type: "function",
        function: { name, arguments: JSON.stringify(args) },
      } as const,
    ],
  });
  const model: Model = async function* (request) {
    requests.push(request);
    const [seen] = results("look");
    const ref = typeof seen === "string" ? /ref ([0-9a-f]{16})/.exec(seen)?.[1] : undefined;
    const reply: Partial<AssistantMessage> = requests.length === 1
      ? calling("look", {})
      : results("recall").length > 0
      ? { content: "seen" }
      : ref === undefined
      ? calling("echo", { text: `word${requests.length} `.repeat(400) })
      : calling("recall", { ref });
    const message: AssistantMessage = { role: "assistant", content: "", ...reply };
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  const handler = agent(model, { tools: [large, echo], supportsImages: () => true });
  await turn(handler, await newSession(handler), "Look");
  const part = { type: "image_url", image_url: { url: LARGE } };
  assertEquals(results("recall"), [[{ type: "text", text: "a large picture" }, part] as Content]);
  assertEquals(typeof results("look")[0], "string");
});

Deno.test("images: an image is evicted by the user, and recalled as an image", async () => {
  const requests: ModelRequest[] = [];
  const results = () =>
    requests.at(-1)!.messages.flatMap(({ role, content }) => role === "tool" ? [content] : []);
  const model: Model = async function* (request) {
    requests.push(request);
    const [, ref] = /ref ([0-9a-f]{16})/.exec(String(results()[0])) ?? [];
    const call = { name: "recall", arguments: JSON.stringify({ ref }) };
    const reply: Partial<AssistantMessage> = requests.length === 1
      ? looks
      : ref !== undefined && results().length === 1
      ? { tool_calls: [{ id: "2", type: "function", function: call }] }
      : { content: "seen" };
    const message: AssistantMessage = { role: "assistant", content: "", ...reply };
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  const store = memoryStore();
  const options = { store, tools: [look], supportsImages: () => true, profile: profileNamed("openai") };
  const handler = agent(model, options);
  const session = await newSession(handler);
  await turn(handler, session, "Look");
  const { status } = await call(handler, "POST", `${session}/pins`, { place: 3, wish: "evict" });
  assertEquals([status, results()], [200, [visible]]);
  await handler.close();
  const later = agent(model, { ...options, now: () => 86_400_000 });
  await turn(later, session, "And now?");
  assertEquals(results().slice(1), [visible]);
  await later.close();
});
