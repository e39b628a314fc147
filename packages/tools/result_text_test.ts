import { assertEquals } from "@std/assert";
import {
  byteLength,
  decodeText,
  fittingRows,
  MAX_RESULT_BYTES,
  shortLines,
  sliceText,
} from "./result_text.ts";

Deno.test("byteLength() counts UTF-8 bytes", () => {
  assertEquals(["", "a", "é", "€", "😀"].map(byteLength), [0, 1, 2, 3, 4]);
});

Deno.test("fittingRows() returns the rows that fit, by number and by bytes", () => {
  assertEquals(fittingRows([], 5), []);
  assertEquals(fittingRows(["a", "b", "c"], 2), ["a", "b"]);
  assertEquals(fittingRows(["a", "b"], 2), ["a", "b"]);
  const half = "é".repeat(MAX_RESULT_BYTES / 4);
  assertEquals(fittingRows([half, "a", half], 9), [half, "a"]);
  assertEquals(fittingRows([half + half], 9), []);
});

Deno.test("sliceText() never halves a character", () => {
  assertEquals(sliceText("a😀b", 0, 2), "a");
  assertEquals(sliceText("a😀b", 2, 4), "b");
  assertEquals(sliceText("a😀b", 0, 3), "a😀");
  assertEquals(sliceText("a😀b", 1, 9), "😀b");
  assertEquals(sliceText("plain", 1, 3), "la");
});

Deno.test("shortLines() omits the middle of many lines and the end of long ones", () => {
  assertEquals(shortLines(["a", "", "b"]), "a\n\nb");
  assertEquals(shortLines(["x".repeat(300), "x".repeat(301)]), `${"x".repeat(300)}\n${"x".repeat(300)}…`);
  const lines = Array.from({ length: 30 }, (_, at) => `${at}`);
  assertEquals(shortLines(lines), [...lines.slice(0, 12), "[… 6 lines …]", ...lines.slice(18)].join("\n"));
});

const decode = (...bytes: number[]) => decodeText(new Uint8Array(bytes));

Deno.test("decodeText() decodes UTF-8 without its byte order mark", () => {
  assertEquals(decode(0x61, 0xC3, 0xA9), { text: "aé", replaced: false });
  assertEquals(decode(0xEF, 0xBB, 0xBF, 0x61), { text: "a", replaced: false });
  // A replacement character in the file is valid.
  assertEquals(decode(0xEF, 0xBF, 0xBD), { text: "\uFFFD", replaced: false });
});

Deno.test("decodeText() replaces invalid bytes, and NUL", () => {
  assertEquals(decode(0x61, 0xE9, 0x62), { text: "a\uFFFDb", replaced: true });
  assertEquals(decode(0x61, 0x00, 0x62), { text: "a\uFFFDb", replaced: true });
  assertEquals(decode(0xED, 0xA0, 0x80), { text: "\uFFFD\uFFFD\uFFFD", replaced: true });
});
