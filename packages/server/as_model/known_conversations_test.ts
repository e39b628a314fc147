import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Content } from "@tare/messages";
import { memoryStore } from "@tare/store";
import {
  ConversationHash,
  type ConversationPoint,
  findConversation,
  knownConversation,
  type Said,
} from "./known_conversations.ts";

const user = (content: Content): Said => ({ role: "user", content });
const agent = (content: Content): Said => ({ role: "assistant", content });

function nameOf(dialogue: readonly Said[], scope: readonly string[] = []): string {
  const hash = new ConversationHash(scope);
  return dialogue.map((said) => hash.add(said)).at(-1)!;
}

Deno.test("ConversationHash.add() names a conversation up to each message", () => {
  const hash = new ConversationHash(["ann"]);
  const names = [user("a"), agent("b"), user("c")].map((said) => hash.add(said));
  assertMatch(names[0]!, /^[0-9a-f]{64}$/);
  assertEquals(new Set(names).size, 3);
  assertEquals(names[1], nameOf([user("a"), agent("b")], ["ann"]));
});

Deno.test("ConversationHash.add() gives one name to the spellings that clients have for a text", () => {
  const plain = nameOf([user("q"), agent("a")]);
  const parts: Content = [{ type: "text", text: "a" }];
  assertEquals(nameOf([user([{ type: "text", text: "q" }]), agent(parts)]), plain);
  assertEquals(nameOf([user("q"), agent("\n a \n")]), plain);
});

Deno.test("ConversationHash.add() tells apart who said what to whom", () => {
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
  ];
  assertEquals(new Set(names).size, names.length);
  assertNotEquals(nameOf([user("a\nb")]), nameOf([user("a"), user("b")]));
});

async function newStore() {
  const store = memoryStore();
  for (const id of ["one", "two"]) {
    await store.commit([{ type: "session", id, createdAtMs: 0, settings: {} }]);
  }
  const remember = (key: string, point: ConversationPoint) => store.commit([knownConversation(key, point)]);
  return { store, remember, find: (keys: readonly string[]) => findConversation(store, keys) };
}

Deno.test("findConversation() gives the longest beginning that is known", async () => {
  const { remember, find } = await newStore();
  await remember("k2", { sessionId: "one", messages: 3 });
  await remember("k4", { sessionId: "one", messages: 7 });
  assertEquals(await find(["k1", "k2", "k3", "k4", "k5"]), {
    point: { sessionId: "one", messages: 7 },
    length: 4,
  });
  assertEquals(await find(["k1", "k2", "other"]), { point: { sessionId: "one", messages: 3 }, length: 2 });
  assertEquals([await find(["k1"]), await find([])], [undefined, undefined]);
});

Deno.test("findConversation() knows the newest of two conversations with one name", async () => {
  const { remember, find } = await newStore();
  await remember("k", { sessionId: "one", messages: 3 });
  await remember("k", { sessionId: "two", messages: 5 });
  assertEquals((await find(["k"]))?.point, { sessionId: "two", messages: 5 });
});

Deno.test("findConversation() forgets a conversation with its session", async () => {
  const { remember, find, store } = await newStore();
  await remember("k", { sessionId: "one", messages: 3 });
  await remember("l", { sessionId: "two", messages: 5 });
  await store.deleteSession("two");
  assertEquals(await find(["k", "l"]), { point: { sessionId: "one", messages: 3 }, length: 1 });
});
