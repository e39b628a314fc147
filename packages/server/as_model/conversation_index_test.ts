import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/store";
import { ConversationIndex } from "./conversation_index.ts";

function newIndex() {
  const store = memoryStore();
  for (const id of ["one", "two"]) store.createSession({ id, createdAtMs: 0, settings: {} });
  return { store, index: new ConversationIndex(store.documents) };
}

Deno.test("ConversationIndex.find() gives the longest beginning that is known", () => {
  const { index } = newIndex();
  index.remember("k2", { sessionId: "one", messages: 3 });
  index.remember("k4", { sessionId: "one", messages: 7 });
  assertEquals(index.find(["k1", "k2", "k3", "k4", "k5"]), {
    point: { sessionId: "one", messages: 7 },
    length: 4,
  });
  assertEquals(index.find(["k1", "k2", "other"]), { point: { sessionId: "one", messages: 3 }, length: 2 });
  assertEquals([index.find(["k1"]), index.find([])], [undefined, undefined]);
});

Deno.test("ConversationIndex.find() knows the newest of two conversations with one name", () => {
  const { index } = newIndex();
  index.remember("k", { sessionId: "one", messages: 3 });
  index.remember("k", { sessionId: "two", messages: 5 });
  assertEquals(index.find(["k"])?.point, { sessionId: "two", messages: 5 });
});

Deno.test("ConversationIndex.find() forgets a conversation with its session", () => {
  const { index, store } = newIndex();
  index.remember("k", { sessionId: "one", messages: 3 });
  index.remember("l", { sessionId: "two", messages: 5 });
  store.deleteSession("two");
  assertEquals(index.find(["k", "l"]), { point: { sessionId: "one", messages: 3 }, length: 1 });
});
