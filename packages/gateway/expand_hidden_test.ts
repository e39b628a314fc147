import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { anchorOf } from "@tare/wire";
import { expandHidden } from "./expand_hidden.ts";
import type { HiddenPieces } from "./session.ts";

const piece = (content: string, role: "user" | "assistant" = "assistant") => ({
  message: { role, content } as Message,
});
const hide = (after: number, anchor: string, replaces: boolean): HiddenPieces => ({
  after,
  anchor: anchorOf(piece(anchor).message),
  replaces,
  pieces: [piece("h1"), piece("h2")],
});
const items = [piece("go", "user"), piece("a"), piece("more", "user"), piece("b")];
const texts = (hidden: HiddenPieces[]) => {
  const expanded = expandHidden(items, hidden);
  return [expanded.pieces.map(({ message }) => message.content), expanded.hidden.length];
};

Deno.test("expandHidden() puts pieces before their anchor, or in its place", () => {
  assertEquals(texts([]), [["go", "a", "more", "b"], 0]);
  assertEquals(texts([hide(1, "a", true)]), [["go", "h1", "h2", "more", "b"], 1]);
  assertEquals(texts([hide(1, "b", false)]), [["go", "a", "more", "h1", "h2", "b"], 1]);
});

Deno.test("expandHidden() forgets what has no anchor any more, and keeps what has none yet", () => {
  assertEquals(texts([hide(1, "gone", true), hide(4, "later", true)]), [["go", "a", "more", "b"], 1]);
});
