import { assertEquals, assertRejects } from "@std/assert";
import { open } from "node:fs/promises";
import fc, { cases } from "../../../tests/cases.ts";
import { ToolRefusal } from "../define_tool.ts";
import { abortOnProgress, context, makeWorkspace } from "../fixture_test.ts";
import { MAX_LINE_BYTES, openText, textBlocks } from "./text_file.ts";

async function firstBytes(content: string | Uint8Array): Promise<string> {
  await using ws = await makeWorkspace({ f: content });
  await using file = await openText(ws.at("f"));
  const buffer = new Uint8Array(100);
  return new TextDecoder("latin1").decode(buffer.subarray(0, (await file.read(buffer)).bytesRead));
}

const bytes = (...values: number[]) => new Uint8Array(values);

Deno.test("openText() opens text at its start, valid or not", async () => {
  assertEquals(await firstBytes(""), "");
  assertEquals(await firstBytes("text"), "text");
  assertEquals(await firstBytes(bytes(0x63, 0x61, 0x66, 0xE9)), "café");
  assertEquals(await firstBytes(`a${"é".repeat(8192)}`), `a${"Ã©".repeat(49)}Ã`);
});

Deno.test("openText() rejects binary files", async () => {
  const random = new Uint8Array(4096).map((_, at) => (at * 7919 + (at >> 3)) % 255 + 1);
  for (const content of [bytes(0x61, 0, 0x62), bytes(0xFF, 0xFE, 0x61, 0x00), random]) {
    await assertRejects(() => firstBytes(content), ToolRefusal, "it is a binary file, not UTF-8 text.");
  }
});

async function blocksOf(content: string | Uint8Array) {
  await using ws = await makeWorkspace({ f: content });
  await using file = await open(ws.at("f"));
  const blocks: { text: string; droppedBytes: number }[] = [];
  for await (const { bytes, droppedBytes } of textBlocks(file, context)) {
    blocks.push({ text: new TextDecoder().decode(bytes), droppedBytes });
  }
  return blocks;
}

Deno.test("textBlocks() yields blocks of whole lines", async () => {
  assertEquals(await blocksOf(""), []);
  assertEquals(await blocksOf("a\nb\n"), [{ text: "a\nb\n", droppedBytes: 0 }]);
  assertEquals(await blocksOf("a\nb"), [{ text: "a\n", droppedBytes: 0 }, { text: "b", droppedBytes: 0 }]);
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at}\n`).join("");
  const blocks = await blocksOf(lines);
  assertEquals(blocks.map(({ text }) => text).join(""), lines);
  assertEquals(blocks.length > 2 && blocks.every(({ text }) => text.endsWith("\n")), true);
});

Deno.test("textBlocks() drops the end of a long line, and continues after it", async () => {
  const long = "x".repeat(MAX_LINE_BYTES + 200_000);
  assertEquals(await blocksOf(`a\n${long}\nb\n`), [
    { text: "a\n", droppedBytes: 0 },
    { text: "x".repeat(MAX_LINE_BYTES), droppedBytes: 200_000 },
    { text: "b\n", droppedBytes: 0 },
  ]);
  assertEquals(await blocksOf(long), [{ text: "x".repeat(MAX_LINE_BYTES), droppedBytes: 200_000 }]);
});

Deno.test("textBlocks() cuts a line between characters", async () => {
  const [block] = await blocksOf(`a${"€".repeat(MAX_LINE_BYTES / 2)}`);
  assertEquals(block?.text, `a${"€".repeat((MAX_LINE_BYTES - 1) / 3)}`);
});

Deno.test("textBlocks() loses only the bytes that it counts", async () => {
  const line = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 20 }),
    fc.nat({ max: 2 * MAX_LINE_BYTES }).map((length) => "y".repeat(length)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 6 }), async (lines) => {
      const text = lines.map((line) => `${line}\n`).join("");
      const rebuilt = (await blocksOf(text)).map(({ text, droppedBytes }) =>
        droppedBytes > 0 ? `${text}${"y".repeat(droppedBytes)}\n` : text
      );
      assertEquals(rebuilt.join(""), text);
    }),
    { numRuns: cases(30) },
  );
});

Deno.test("textBlocks() stops when aborted", async () => {
  await using ws = await makeWorkspace({ f: "a\n".repeat(200_000) });
  await using file = await open(ws.at("f"));
  await assertRejects(() => Array.fromAsync(textBlocks(file, abortOnProgress())), DOMException, "aborted");
});
