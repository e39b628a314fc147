import { assertEquals } from "@std/assert";
import cl100k_base from "js-tiktoken/ranks/cl100k_base";
import o200k_base from "js-tiktoken/ranks/o200k_base";
import fc from "../../tests/cases.ts";
import gpt2 from "js-tiktoken/ranks/gpt2";
import p50k_base from "js-tiktoken/ranks/p50k_base";
import { bytePairEncoder, BytePairMerger, RankTable } from "./byte_pair_encoder.ts";

const WINDOW_LENGTH = 2 ** 20;
const { count, encode } = bytePairEncoder(o200k_base);

Deno.test("bytePairEncoder() is exact over windows wherever a space follows something else", () => {
  for (const encoding of [o200k_base, cl100k_base]) {
    const { count } = bytePairEncoder(encoding);
    for (const [unit, tokens] of [[" hello", 1], [" hello\n\n", 2], ["42. ", 3], [" a", 1]] as const) {
      const units = Math.ceil(2.5 * WINDOW_LENGTH / unit.length);
      // The last unit may differ: nothing follows it.
      const [last, lastButOne] = [count(unit.repeat(4)), count(unit.repeat(3))];
      assertEquals(last - lastButOne, tokens);
      assertEquals(count(unit.repeat(units)), lastButOne + (units - 3) * tokens);
    }
  }
});

Deno.test("bytePairEncoder() gives text without any space, longer than a window, its tokens", () => {
  const cases = [["a", 1 / 8], ["😀", 1], ["中", 1], ["1", 1 / 3], ["\n", 1 / 16]] as const;
  for (const [unit, tokensPerUnit] of cases) {
    const length = 1.5 * WINDOW_LENGTH;
    const exact = length * tokensPerUnit / unit.length;
    assertEquals(Math.abs(count(unit.repeat(length / unit.length)) - exact) <= 2, true, unit);
  }
});

Deno.test("bytePairEncoder() doesn't cut a surrogate pair where it cuts a text without spaces", () => {
  const tokens = encode("a" + "😀".repeat(WINDOW_LENGTH));
  assertEquals(new Set(tokens), new Set([...encode("a"), ...encode("😀😀")]));
});

Deno.test("bytePairEncoder() survives a piece at which a regular expression would run out of stack", () => {
  assertEquals(count("中".repeat(5_000_000)), 5_000_000);
});

Deno.test("bytePairEncoder() counts a name that comes again as it was counted first, however many come between", () => {
  const names = Array.from({ length: 20_000 }, (_, at) => ` unheardOfName${(at * 7_919).toString(36)}x`);
  const { length } = names.flatMap((name) => encode(name));
  for (let times = 0; times < 2; times++) {
    assertEquals(names.reduce((sum, name) => sum + count(name), 0), length);
    assertEquals(count(names.join("")), length);
  }
});

/** Ranks by token, a byte being a character of the same code. */
function ranksOf(packed: string): Map<string, number> {
  const ranks = new Map<string, number>();
  for (const line of packed.split("\n").filter((line) => line !== "")) {
    const [, first, ...tokens] = line.split(" ");
    tokens.forEach((token, i) => ranks.set(atob(token), Number(first) + i));
  }
  return ranks;
}

/** Byte-pair encoding as its definition has it. Unions of `limit` and above are not made. */
function mergeSlowly(text: string, ranks: ReadonlyMap<string, number>, limit = Infinity): string[] {
  const parts = [...text];
  for (;;) {
    let lowest = limit;
    let at = -1;
    for (let i = 0; i + 1 < parts.length; i++) {
      const rank = ranks.get(parts[i]! + parts[i + 1]!) ?? Infinity;
      if (rank < lowest) [lowest, at] = [rank, i];
    }
    if (at < 0) return parts;
    parts.splice(at, 2, parts[at]! + parts[at + 1]!);
  }
}

const ranks = ranksOf(o200k_base.bpe_ranks);
const merger = new BytePairMerger(new RankTable(o200k_base.bpe_ranks));

function merge(text: string): number[] {
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const tokens = new Int32Array(bytes.length);
  return [...tokens.subarray(0, merger.merge(bytes, bytes.length, tokens))];
}

Deno.test("BytePairMerger.merge() is byte-pair encoding", () => {
  const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
  const tokens = [...ranks.keys()];
  const token = fc.nat({ max: tokens.length - 1 }).map((index) => tokens[index]!);
  const unit = fc.oneof(byte, fc.constantFrom(..."  aaeintor\n\xe4\xb8\x80"), token);
  fc.assert(fc.property(fc.string({ unit, minLength: 1, maxLength: 60 }), (text) => {
    assertEquals(merge(text), mergeSlowly(text, ranks).map((part) => ranks.get(part)));
  }));
});

Deno.test("BytePairMerger.merge() merges the leftmost first where the same union overlaps", () => {
  for (let length = 1; length < 40; length++) {
    for (const unit of ["a", "ab", "aab", " ", "\n"]) {
      const text = unit.repeat(length);
      assertEquals(merge(text), mergeSlowly(text, ranks).map((part) => ranks.get(part)));
    }
  }
});

Deno.test("BytePairMerger.merge() leaves nothing behind for the next piece", () => {
  const lengths = [3, 5_000, 3, 10_000, 4_096, 4_097, 1];
  assertEquals(
    lengths.map((length) => merge("abc".repeat(length)).length),
    lengths.map((length) => mergeFresh("abc".repeat(length))),
  );
});

function mergeFresh(text: string): number {
  const fresh = new BytePairMerger(new RankTable(o200k_base.bpe_ranks));
  return fresh.merge(new TextEncoder().encode(text), text.length, new Int32Array(text.length));
}

Deno.test("each token of each encoding is made of two of lower rank, which BytePairMerger relies on", () => {
  for (const { bpe_ranks } of [o200k_base, cl100k_base, p50k_base, gpt2]) {
    const ranks = ranksOf(bpe_ranks);
    for (const [token, rank] of ranks) {
      const parts = token.length === 1 ? 2 : mergeSlowly(token, ranks, rank).length;
      if (parts !== 2) assertEquals(parts, 2, `token ${rank}`);
    }
  }
});
