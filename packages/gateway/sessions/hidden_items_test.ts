import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { anchorOf, type WireItem } from "@tare/wire/internal";
import { expandHidden, type HiddenPlace } from "./history.ts";

const message = (content: string, role: "user" | "assistant" = "assistant"): Message => ({ role, content });
const item = (content: string, role?: "user" | "assistant"): WireItem => ({
  key: content,
  parts: [{ message: message(content, role) }],
});
const hide = (after: number, anchor: string, replaces: boolean): HiddenPlace => ({
  after,
  part: 0,
  replaces: replaces ? [anchorOf(message(anchor))] : [],
  before: replaces ? [] : [anchorOf(message(anchor))],
  thoughts: [],
  items: [item("h1"), item("h2")],
});
const items = [item("go", "user"), item("a"), item("more", "user"), item("b")];
const texts = (hidden: HiddenPlace[]) => {
  const expanded = expandHidden(items, hidden);
  return [expanded.items.map(({ key }) => key), expanded.hidden.length];
};

Deno.test("expandHidden() places items before their anchor, or in its place", () => {
  assertEquals(texts([]), [["go", "a", "more", "b"], 0]);
  assertEquals(texts([hide(1, "a", true)]), [["go", "h1", "h2", "more", "b"], 1]);
  assertEquals(texts([hide(1, "b", false)]), [["go", "a", "more", "h1", "h2", "b"], 1]);
});

Deno.test("expandHidden() removes items without anchor, and retains those whose anchor is still to come", () => {
  assertEquals(texts([hide(1, "gone", true), hide(4, "later", true)]), [["go", "a", "more", "b"], 1]);
});
