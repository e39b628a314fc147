import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/conversation";
import type { AssistantMessage, Content, Model, ModelRequest, Tool } from "@tare/messages";
import { agent, call, newSession, turn } from "../fixture_test.ts";

const url = "data:image/png;base64,AAAA";

/** Shows a picture to who sees pictures. */
const look: Tool = {
  definition: { type: "function", function: { name: "look" } },
  stance: "rederivable",
  run: (_args, { seesPictures }) =>
    seesPictures ? { content: "a picture", error: false, pictures: [url] } : "none is shown",
};

const shown: Content = [{ type: "text", text: "a picture" }, { type: "image_url", image_url: { url } }];

/** A model that gives these replies, and the requests that it got. */
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

Deno.test("a model that sees pictures is shown those of results, after a restart too; another one isn't", async () => {
  const store = memoryStore();
  const { model, requests } = recorded([looks, { content: "seen" }, { content: "again" }]);
  const options = { store, tools: [look], seesPictures: (name: string) => name === "scripted" };
  const handler = agent(model, options);
  const session = await newSession(handler);
  const events = await turn(handler, session, "Look");
  assertEquals(events.flatMap(({ event }) => event.type === "tool_result" ? [event.pictures] : []), [[url]]);
  const results = () =>
    requests.at(-1)!.messages.flatMap(({ role, content }) => role === "tool" ? [content] : []);
  assertEquals(results(), [shown]);
  const restarted = agent(model, options);
  await turn(restarted, session, "And now?");
  assertEquals(results(), [shown]);
  const { messages } = (await call(restarted, "GET", session)).body as { messages: { content: unknown }[] };
  assertEquals(messages.filter(({ content }) => Array.isArray(content)).map(({ content }) => content), [
    shown,
  ]);

  const blind = recorded([looks, { content: "told" }]);
  const other = agent(blind.model, options);
  await turn(other, await newSession(other, { model: "blind" }), "Look");
  assertEquals(blind.requests.at(-1)?.messages.at(-1)?.content, "none is shown");
});
