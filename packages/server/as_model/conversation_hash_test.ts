import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Content } from "@tare/messages";
import { ConversationHash, type Said } from "./conversation_hash.ts";

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
