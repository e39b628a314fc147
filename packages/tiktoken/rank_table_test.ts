import { loadOnce, RankTable } from "./byte_pair_encoder.ts";
import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";

const bytes = (text: string) => new TextEncoder().encode(text);
const packed = (tokens: readonly string[]) => tokens.map((token) => btoa(token)).join(" ");

Deno.test("RankTable.rank() returns each token's rank over all lines, and -1 for other bytes", () => {
  const table = new RankTable(
    `! 0 ${packed(["a", "b", "ab", "abab"])}\n! 7 ${packed(["xyz", "\xff\x00"])}\n`,
  );
  const ranks = ["a", "b", "ab", "abab", "xyz", "", "ba", "aba", "ababa", "longer than any token"]
    .map((text) => table.rank(bytes(text), text.length));
  assertEquals(ranks, [0, 1, 2, 3, 7, -1, -1, -1, -1, -1]);
  assertEquals(table.rank(Uint8Array.of(0xff, 0x00), 2), 8);
  assertEquals(table.size, 9);
});

Deno.test("RankTable.rank() reads only `length` bytes", () => {
  const table = new RankTable(`! 0 ${packed(["a", "ab"])}`);
  assertEquals([table.rank(bytes("abc"), 1), table.rank(bytes("abc"), 2)], [0, 1]);
});

Deno.test("RankTable.sliceRank() returns the same as rank() for each slice", () => {
  const table = new RankTable(`! 0 ${packed(["a", "b", "c", "ab", "bc", "cab", "cabbc"])}`);
  const text = bytes("abcabbcab");
  const hashes = new Int32Array(text.length + 1);
  table.hashPrefixes(text, text.length, hashes);
  for (let start = 0; start < text.length; start++) {
    for (let end = start + 1; end <= text.length; end++) {
      const slice = text.slice(start, end);
      assertEquals(table.sliceRank(text, hashes, start, end), table.rank(slice, slice.length));
    }
  }
});

Deno.test("loadOnce() loads each key once and returns the same promise", async () => {
  const loaded: string[] = [];
  const load = loadOnce((key: string) => Promise.resolve((loaded.push(key), key.toUpperCase())));
  const [first, second] = [load("a"), load("a")];
  assertStrictEquals(first, second);
  assertEquals(await Promise.all([first, load("b"), load("a")]), ["A", "B", "A"]);
  assertEquals(loaded, ["a", "b"]);
});

Deno.test("loadOnce() retries a failed load", async () => {
  const replies = [Promise.reject(new Error("offline")), Promise.resolve("table")];
  const load = loadOnce((_: string) => replies.shift() ?? Promise.reject(new Error("asked too often")));
  await assertRejects(() => load("a"), Error, "offline");
  assertEquals([await load("a"), await load("a")], ["table", "table"]);
});
