import { assert, assertEquals, assertLess, assertThrows } from "@std/assert";
import fc from "fast-check";
import { JsonPacker, refsIn, unpackJson } from "./kept_session.ts";

const packJson = (value: unknown) => new JsonPacker().pack(value);

Deno.test("JsonPacker loses nothing of any version of a value, however long its lists are", () => {
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
  const change = fc.record({
    at: fc.nat(400),
    gone: fc.nat(3),
    more: fc.array(entry, { maxLength: 60 }),
    isKept: fc.boolean(),
  });
  fc.assert(
    fc.property(value, fc.array(change, { maxLength: 4 }), (value, changes) => {
      const packer = new JsonPacker();
      const kept = new Map<string, string>();
      let now = value;
      for (const { at, gone, more, isKept } of [{ at: 0, gone: 0, more: [], isKept: true }, ...changes]) {
        now = { ...now, list: now.list.toSpliced(at, gone, ...more) };
        const { value: packed, texts } = packer.pack(now, new Set(kept.keys()));
        // What could not be written has to come again.
        if (!isKept) continue;
        for (const { ref, content } of texts) kept.set(ref, content);
        const stored = JSON.parse(JSON.stringify(packed));
        assert(refsIn(stored).every((ref) => kept.has(ref)));
        assertEquals(unpackJson(stored, kept), JSON.parse(JSON.stringify(now)));
      }
    }),
    { numRuns: 100 },
  );
});

Deno.test("JsonPacker gives of a list that has grown, or changed in one place, hardly another text", () => {
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
