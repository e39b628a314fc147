import { assertEquals } from "@std/assert";
import cl100k_base from "js-tiktoken/ranks/cl100k_base";
import o200k_base from "js-tiktoken/ranks/o200k_base";
import { bytePairEncoder } from "./byte_pair_encoder.ts";

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
