import { assertEquals } from "@std/assert";
import { applyPatch, diffJson } from "@tare/session/internal";
import fc, { cases } from "../../../tests/cases.ts";

const plain = (value: unknown) => JSON.parse(JSON.stringify(value));

Deno.test("applyPatch() is the inverse of diffJson() for random values", () => {
  const leaf = fc.oneof(fc.string({ maxLength: 4 }), fc.nat(3), fc.constant(null), fc.boolean());
  const name = fc.constantFrom("a", "b", "__proto__", "constructor", "toString", "0");
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc.array(tie("any"), { maxLength: 4 }),
      fc.array(fc.tuple(name, tie("any")), { maxLength: 4 }).map((members) => Object.fromEntries(members)),
    ),
  })).any;
  fc.assert(
    fc.property(value, value, (before, after) => {
      const patch = diffJson(before, after);
      const stored = plain(before);
      assertEquals(plain(patch === undefined ? stored : applyPatch(stored, plain(patch))), plain(after));
      assertEquals(stored, plain(before), "the earlier version stays as it is");
    }),
    { numRuns: cases(500) },
  );
});

Deno.test("diffJson() returns appended entries, and added, changed and removed members", () => {
  const before = { list: [{ a: 1 }, { a: 2 }], same: { deep: [1] }, old: 1, at: 2 };
  const after = {
    list: [{ a: 1 }, { a: 2 }, { a: 3 }],
    same: { deep: [1] },
    old: undefined,
    at: 3,
    more: {},
  };
  assertEquals(diffJson(before, after), {
    list: ["list", 2, { a: 3 }],
    old: ["gone"],
    at: ["is", 3],
    more: ["is", {}],
  });
  assertEquals(diffJson(before, plain(before)), undefined);
});
