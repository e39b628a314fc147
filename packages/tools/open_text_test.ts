import { assertEquals, assertRejects } from "@std/assert";
import { Refusal } from "./define_tool.ts";
import { makeWorkspace } from "./fixture_test.ts";
import { openText } from "./open_text.ts";

async function firstBytes(content: string | Uint8Array): Promise<string> {
  await using ws = await makeWorkspace({ f: content });
  using file = await openText(ws.at("f"));
  const buffer = new Uint8Array(100);
  return new TextDecoder("latin1").decode(buffer.subarray(0, await file.read(buffer) ?? 0));
}

const bytes = (...values: number[]) => new Uint8Array(values);

Deno.test("openText() opens text at its start, valid or not", async () => {
  assertEquals(await firstBytes(""), "");
  assertEquals(await firstBytes("text"), "text");
  assertEquals(await firstBytes(bytes(0x63, 0x61, 0x66, 0xE9)), "café");
  // The head may end in the middle of a character.
  assertEquals(await firstBytes(`a${"é".repeat(8192)}`), `a${"Ã©".repeat(49)}Ã`);
});

Deno.test("openText() refuses binary files", async () => {
  const random = new Uint8Array(4096).map((_, at) => (at * 7919 + (at >> 3)) % 255 + 1);
  for (const content of [bytes(0x61, 0, 0x62), bytes(0xFF, 0xFE, 0x61, 0x00), random]) {
    await assertRejects(() => firstBytes(content), Refusal, "it is a binary file, not UTF-8 text.");
  }
});
