import { assertEquals } from "@std/assert";
import cl100k_base from "js-tiktoken/ranks/cl100k_base";
import o200k_base from "js-tiktoken/ranks/o200k_base";
import fc from "../../tests/cases.ts";
import gpt2 from "js-tiktoken/ranks/gpt2";
import p50k_base from "js-tiktoken/ranks/p50k_base";
import { bytePairEncoder, BytePairMerger, RankTable } from "./byte_pair_encoder.ts";

const WINDOW_LENGTH = 2 ** 20;
const { count, encode } = bytePairEncoder(o200k_base);

Deno.test("bytePairEncoder() is exact across windows if a space follows other text", () => {
  for (const encoding of [o200k_base, cl100k_base]) {
    const { count } = bytePairEncoder(encoding);
    for (const [unit, tokens] of [[" hello", 1], [" hello\n\n", 2], ["42. ", 3], [" a", 1]] as const) {
      const units = Math.ceil(2.5 * WINDOW_LENGTH / unit.length);
      // The last unit may differ, because nothing follows it.
      const [last, lastButOne] = [count(unit.repeat(4)), count(unit.repeat(3))];
      assertEquals(last - lastButOne, tokens);
      assertEquals(count(unit.repeat(units)), lastButOne + (units - 3) * tokens);
    }
  }
});

Deno.test("bytePairEncoder() encodes text without spaces that is longer than a window", () => {
  const cases = [["a", 1 / 8], ["😀", 1], ["中", 1], ["1", 1 / 3], ["\n", 1 / 16]] as const;
  for (const [unit, tokensPerUnit] of cases) {
    const length = 1.5 * WINDOW_LENGTH;
    const exact = length * tokensPerUnit / unit.length;
    assertEquals(Math.abs(count(unit.repeat(length / unit.length)) - exact) <= 2, true, unit);
  }
});

Deno.test("bytePairEncoder() doesn't split a surrogate pair in a text without spaces", () => {
  const tokens = encode("a" + "😀".repeat(WINDOW_LENGTH));
  assertEquals(new Set(tokens), new Set([...encode("a"), ...encode("😀😀")]));
});

Deno.test("bytePairEncoder() encodes a piece that would exhaust a regular expression's stack", () => {
  assertEquals(count("中".repeat(5_000_000)), 5_000_000);
});

Deno.test("bytePairEncoder() counts a repeated name equally after any number of others", () => {
  const names = Array.from({ length: 20_000 }, (_, at) => ` unheardOfName${(at * 7_919).toString(36)}x`);
  const { length } = names.flatMap((name) => encode(name));
  for (let times = 0; times < 2; times++) {
    assertEquals(names.reduce((sum, name) => sum + count(name), 0), length);
    assertEquals(count(names.join("")), length);
  }
});

/** Returns ranks by token, with a character per byte. */
function ranksOf(packed: string): Map<string, number> {
  const ranks = new Map<string, number>();
  for (const line of packed.split("\n").filter((line) => line !== "")) {
    const [, first, ...tokens] = line.split(" ");
    tokens.forEach((token, i) => ranks.set(atob(token), Number(first) + i));
  }
  return ranks;
}

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

Deno.test("BytePairMerger.merge() implements byte-pair encoding", () => {
  const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
  const tokens = [...ranks.keys()];
  const token = fc.nat({ max: tokens.length - 1 }).map((index) => tokens[index]!);
  const unit = fc.oneof(byte, fc.constantFrom(..."  aaeintor\n\xe4\xb8\x80"), token);
  fc.assert(fc.property(fc.string({ unit, minLength: 1, maxLength: 60 }), (text) => {
    assertEquals(merge(text), mergeSlowly(text, ranks).map((part) => ranks.get(part)));
  }));
});

Deno.test("BytePairMerger.merge() merges the leftmost of overlapping equal pairs first", () => {
  for (let length = 1; length < 40; length++) {
    for (const unit of ["a", "ab", "aab", " ", "\n"]) {
      const text = unit.repeat(length);
      assertEquals(merge(text), mergeSlowly(text, ranks).map((part) => ranks.get(part)));
    }
  }
});

Deno.test("BytePairMerger.merge() keeps no state between pieces", () => {
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

Deno.test("encodings: each token consists of two of lower rank, as BytePairMerger requires", () => {
  for (const { bpe_ranks } of [o200k_base, cl100k_base, p50k_base, gpt2]) {
    const ranks = ranksOf(bpe_ranks);
    for (const [token, rank] of ranks) {
      const parts = token.length === 1 ? 2 : mergeSlowly(token, ranks, rank).length;
      if (parts !== 2) assertEquals(parts, 2, `token ${rank}`);
    }
  }
});
