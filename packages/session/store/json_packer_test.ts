import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { JsonPacker } from "@tare/session/internal";

const packJson = (value: unknown) => new JsonPacker().pack(value);

const reader = (texts: ReadonlyMap<string, string>) => (refs: readonly string[]) =>
  Promise.resolve(
    new Map(refs.flatMap((ref) => texts.has(ref) ? [[ref, texts.get(ref)!] as const] : [])),
  );

Deno.test("JsonPacker restores every version of a value with lists of any length", async () => {
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
    isStored: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(value, fc.array(change, { maxLength: 4 }), async (value, changes) => {
      const packer = new JsonPacker();
      const stored = new Map<string, string>();
      let now = value;
      for (const { at, gone, more, isStored } of [{ at: 0, gone: 0, more: [], isStored: true }, ...changes]) {
        now = { ...now, list: now.list.toSpliced(at, gone, ...more) };
        const { value: packed, texts } = packer.pack(now, new Set(stored.keys()));
        // Unwritten texts must be returned again.
        if (!isStored) continue;
        for (const { ref, content } of texts) stored.set(ref, content);
        const { value, refs } = await JsonPacker.unpack(JSON.parse(JSON.stringify(packed)), reader(stored));
        assert([...refs].every((ref) => stored.has(ref)));
        assertEquals(value, JSON.parse(JSON.stringify(now)));
      }
    }),
    { numRuns: cases(100) },
  );
});

Deno.test("JsonPacker returns few new texts for a grown or locally changed list", () => {
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

Deno.test("JsonPacker writes only the new part of a growing list", async () => {
  const entry = (at: number) => ({ type: "elide", index: at, text: `line ${at * 7919} `.repeat(9) });
  const packer = new JsonPacker();
  const stored = new Map<string, string>();
  const written: number[] = [];
  let list: readonly object[] = [];
  const add = (count: number) => {
    list = [...list, ...Array.from({ length: count }, (_, at) => entry(list.length + at))];
    const { value, texts } = packer.pack({ list }, new Set(stored.keys()));
    for (const { ref, content } of texts) stored.set(ref, content);
    return { value, bytes: JSON.stringify(value).length + JSON.stringify(texts).length };
  };
  for (const length of [400, 6_400, 20_000]) {
    add(length - list.length);
    const more = Array.from({ length: 50 }, () => add(1).bytes);
    written.push(more.reduce((sum, bytes) => sum + bytes, 0) / 50);
  }
  for (const bytes of written) assertLess(bytes, 8_000);
  const { value } = add(1);
  assertEquals(await JsonPacker.unpack(value, reader(stored)), {
    value: { list },
    refs: new Set(stored.keys()),
  });
});

Deno.test("JsonPacker.unpack() reports a missing text", async () => {
  const { value } = packJson({ list: Array.from({ length: 1_000 }, (_, at) => `entry ${at}`) });
  await assertRejects(
    () => JsonPacker.unpack(value, reader(new Map())),
    Error,
    "Cannot read a conversation: text ",
  );
});
