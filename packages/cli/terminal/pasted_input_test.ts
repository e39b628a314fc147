import { EventEmitter } from "node:events";
import { text } from "node:stream/consumers";
import { assertEquals } from "@std/assert";
import { pastedInput } from "./input.ts";

/** Returns what a line editor reads of these pieces. */
async function read(pieces: readonly string[]) {
  const terminal = new EventEmitter();
  const { input, markOf, whole } = pastedInput(terminal);
  for (const piece of pieces) terminal.emit("data", new TextEncoder().encode(piece));
  terminal.emit("end");
  return { edited: await text(input), markOf, whole };
}

Deno.test("pastedInput() replaces several pasted lines by a mark in the line", async () => {
  const { edited, whole } = await read(["look at \x1b[200~one\r\n\ttwo\rthree\r\x1b[201~ and ", "say\r"]);
  assertEquals(edited, "look at [paste 1: 3 lines] and say\r");
  assertEquals(
    whole("look at [paste 1: 3 lines] and say $&"),
    "look at one\n\ttwo\nthree and say $&",
  );
  assertEquals(whole("[paste 2: 3 lines]"), "[paste 2: 3 lines]");
});

Deno.test("pastedInput() inserts one pasted line without control characters", async () => {
  assertEquals((await read(["\x1b[200~a\tb\x1b[31m\x03c\n\x1b[201~"])).edited, "a b[31mc");
});

Deno.test("pastedInput() returns a mark for any text", async () => {
  const { markOf, whole } = await read(["\x1b[200~a\nb\x1b[201~"]);
  assertEquals(markOf("c\nd\ne"), "[paste 2: 3 lines]");
  assertEquals(whole("[paste 1: 2 lines] [paste 2: 3 lines]"), "a\nb c\nd\ne");
});

Deno.test("pastedInput() recognizes split escape sequences and preserves keys", async () => {
  const typed = "x\x1b[A\x1b[200~a\nb\x1b[\x1b[201~y\x1b";
  for (let at = 1; at < typed.length; at++) {
    // Split after the first character it is a key: terminals write sequences at once.
    if (at === typed.indexOf("\x1b[200~") + 1) continue;
    const { edited, whole } = await read([typed.slice(0, at), typed.slice(at)]);
    assertEquals([edited, whole(edited)], ["x\x1b[A[paste 1: 2 lines]y\x1b", "x\x1b[Aa\nb\x1b[y\x1b"]);
  }
});
