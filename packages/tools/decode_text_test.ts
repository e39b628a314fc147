import { assertEquals } from "@std/assert";
import { decodeText } from "./decode_text.ts";

const decode = (...bytes: number[]) => decodeText(new Uint8Array(bytes));

Deno.test("decodeText() decodes UTF-8 without its byte order mark", () => {
  assertEquals(decode(0x61, 0xC3, 0xA9), { text: "aé", replaced: false });
  assertEquals(decode(0xEF, 0xBB, 0xBF, 0x61), { text: "a", replaced: false });
  // A replacement character that stands in the file is no fault of it.
  assertEquals(decode(0xEF, 0xBF, 0xBD), { text: "\uFFFD", replaced: false });
});

Deno.test("decodeText() replaces what is invalid, and NUL", () => {
  assertEquals(decode(0x61, 0xE9, 0x62), { text: "a\uFFFDb", replaced: true });
  assertEquals(decode(0x61, 0x00, 0x62), { text: "a\uFFFDb", replaced: true });
  assertEquals(decode(0xED, 0xA0, 0x80), { text: "\uFFFD\uFFFD\uFFFD", replaced: true });
});
