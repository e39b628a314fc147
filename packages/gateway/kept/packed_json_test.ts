import { assertEquals, assertLess, assertThrows } from "@std/assert";
import fc from "fast-check";
import { packJson, refsIn, unpackJson } from "./packed_json.ts";

/** What comes back of a packed value that was stored. */
function throughStore(value: unknown): unknown {
  const { value: packed, texts } = packJson(value);
  const stored = JSON.parse(JSON.stringify(packed));
  const kept = new Map(texts.map(({ ref, content }) => [ref, content]));
  assertEquals(new Set(refsIn(stored)), new Set(kept.keys()));
  return unpackJson(stored, kept);
}

Deno.test("packJson() loses nothing, however long its lists are", () => {
  const entry = fc.oneof(
    fc.integer(),
    fc.string({ maxLength: 300 }),
    fc.record({ a: fc.string(), b: fc.nat() }),
  );
  const value = fc.record({
    list: fc.array(entry, { size: "large", maxLength: 400 }),
    of: fc.record({
      plain: fc.dictionary(fc.string(), fc.nat(), { size: "large" }),
      more: fc.array(fc.nat()),
    }),
    none: fc.constant(null),
  });
  fc.assert(
    fc.property(value, (value) => {
      assertEquals(throughStore(value), JSON.parse(JSON.stringify(value)));
    }),
    { numRuns: 100 },
  );
});

Deno.test("packJson() gives of a list that has grown, or changed in one place, hardly another text", () => {
  const list = Array.from({ length: 5_000 }, (_, at) => `entry ${at * 7919}`);
  const refs = (list: readonly string[]) => new Set(packJson({ list }).texts.map(({ ref }) => ref));
  const before = refs(list);
  for (
    const other of [
      [...list, "more"],
      list.toSpliced(2_000, 1),
      list.with(3_000, "changed"),
      list.toSpliced(1, 0, "new"),
    ]
  ) {
    assertLess([...refs(other)].filter((ref) => !before.has(ref)).length, 3);
  }
  assertLess(JSON.stringify(packJson({ list }).value).length, JSON.stringify(list).length / 5);
});

Deno.test("unpackJson() says which text is missing", () => {
  const { value } = packJson({ list: Array.from({ length: 1_000 }, (_, at) => `entry ${at}`) });
  assertThrows(() => unpackJson(value, new Map()), Error, "Cannot read a conversation: its text ");
});
