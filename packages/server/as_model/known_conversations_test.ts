import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Content } from "@tare/messages";
import { memoryStore } from "@tare/session/sqlite";
import {
  conversationNames,
  type ConversationPoint,
  type DialogueMessage,
  findBeginning,
  findConversation,
  knownConversation,
} from "./known_conversations.ts";

const user = (content: Content): DialogueMessage => ({ role: "user", content });
const agent = (content: Content): DialogueMessage => ({ role: "assistant", content });
const calling = (id: string, args: string): DialogueMessage => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id, type: "function", function: { name: "f", arguments: args } }],
});
const result = (id: string, content: Content): DialogueMessage => ({
  role: "tool",
  tool_call_id: id,
  content,
});

function nameOf(dialogue: readonly DialogueMessage[], scope: readonly string[] = []): string {
  return conversationNames(scope, dialogue).at(-1)!;
}

Deno.test("conversationNames() returns a name up to each message", () => {
  const names = conversationNames(["ann"], [user("a"), agent("b"), user("c")]);
  assertMatch(names[0]!, /^[\w-]{43}$/);
  assertEquals(new Set(names).size, 3);
  assertEquals(names[1], nameOf([user("a"), agent("b")], ["ann"]));
});

Deno.test("conversationNames() returns one name for all spellings of a text", () => {
  const plain = nameOf([user("q"), agent("a")]);
  const parts: Content = [{ type: "text", text: "a" }];
  assertEquals(nameOf([user([{ type: "text", text: "q" }]), agent(parts)]), plain);
  assertEquals(nameOf([user("q"), agent("\n a \n")]), plain);
  assertEquals(nameOf([calling("1", '{"a": [1, 2]}')]), nameOf([calling("1", '{"a":[1,2]}')]));
  assertEquals(nameOf([result("1", "a")]), nameOf([result("1", parts)]));
});

Deno.test("conversationNames() distinguishes speakers, users and instructions", () => {
  const image = (url: string): Content => [{ type: "image_url", image_url: { url } }];
  const names = [
    nameOf([user("a"), agent("b")]),
    nameOf([user("a"), user("b")]),
    nameOf([user("ab")]),
    nameOf([user(" a"), agent("b")]),
    nameOf([user("a"), agent("b")], ["ann"]),
    nameOf([user("a"), agent("b")], ["ann", ""]),
    nameOf([user(image("x"))]),
    nameOf([user(image("y"))]),
    nameOf([calling("1", "{}")]),
    nameOf([calling("2", "{}")]),
    nameOf([calling("1", '{"a":1}')]),
    nameOf([calling("1", "{")]),
    nameOf([result("1", "a")]),
    nameOf([result("2", "a")]),
    nameOf([agent("")]),
  ];
  assertEquals(new Set(names).size, names.length);
  assertNotEquals(nameOf([user("a\nb")]), nameOf([user("a"), user("b")]));
});

async function newStore() {
  const store = memoryStore();
  for (const id of ["one", "two"]) {
    await store.commit([{ type: "session", kind: "agent", id, createdAtMs: 0, settings: {} }]);
  }
  const remember = (key: string, point: ConversationPoint) => store.commit([knownConversation(key, point)]);
  return {
    store,
    remember,
    find: (keys: readonly string[]) => {
      const dialogue = keys.map((key) => key.startsWith("a") ? agent(key) : user(key));
      return findBeginning(store, { dialogue, names: keys });
    },
  };
}

Deno.test("findBeginning() returns the longest known start that ends with an answer", async () => {
  const { remember, find, store } = await newStore();
  await remember("a2", { sessionId: "one", messages: 3 });
  await remember("u3", { sessionId: "one", messages: 3 });
  await remember("a4", { sessionId: "one", messages: 7 });
  assertEquals(await find(["u1", "a2", "u3", "a4", "u5"]), {
    point: { sessionId: "one", messages: 7 },
    length: 4,
  });
  assertEquals(await find(["u1", "a2", "u3"]), { point: { sessionId: "one", messages: 3 }, length: 2 });
  assertEquals([await find(["u3"]), await find(["a1"]), await find([])], [undefined, undefined, undefined]);
  assertEquals(await findConversation(store, "u3"), { sessionId: "one", messages: 3 });
});

Deno.test("findBeginning() returns the newest of two conversations with one name", async () => {
  const { remember, find } = await newStore();
  await remember("a", { sessionId: "one", messages: 3 });
  await remember("a", { sessionId: "two", messages: 5 });
  assertEquals((await find(["a"]))?.point, { sessionId: "two", messages: 5 });
});

Deno.test("findBeginning() finds no conversation of a deleted session", async () => {
  const { remember, find, store } = await newStore();
  await remember("a1", { sessionId: "one", messages: 3 });
  await remember("a2", { sessionId: "two", messages: 5 });
  await store.deleteSession("two");
  assertEquals(await find(["a1", "a2"]), { point: { sessionId: "one", messages: 3 }, length: 1 });
});
