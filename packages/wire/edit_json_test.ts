import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { editJson } from "@tare/wire";
import { decode, encode } from "./request_fixture_test.ts";

Deno.test("editJson() changes fields, adds others in front, and nothing else", () => {
  const edited = editJson(encode('{ "a":1.0, "b" : [2],"c":3}'), [
    { path: ["b"], value: encode("[1,2]") },
    { path: ["new"], value: encode("0") },
  ]);
  assertEquals(decode(edited), '{"new":0, "a":1.0, "b" : [1,2],"c":3}');
  assertEquals(decode(editJson(encode("{}"), [{ path: ["a"], value: encode("1") }])), '{"a":1}');
});

Deno.test("editJson() takes items out of a list, whichever they are", () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.jsonValue(), fc.constantFrom("stays", "leaves", "changes"))),
      (items) => {
        const body = { before: 1, list: items.map(([value]) => ({ value })), behind: [1] };
        const edits = items.flatMap(([, fate], at) => {
          if (fate === "leaves") return [{ path: ["list", at] }];
          return fate === "changes" ? [{ path: ["list", at, "value"], value: encode("0") }] : [];
        });
        const list = items.flatMap(([value, fate]) =>
          fate === "leaves" ? [] : [{ value: fate === "changes" ? 0 : value }]
        );
        const expected = JSON.parse(JSON.stringify({ ...body, list }));
        assertEquals(JSON.parse(decode(editJson(encode(JSON.stringify(body, null, 1)), edits))), expected);
      },
    ),
  );
});

Deno.test("editJson() refuses paths that lead nowhere", () => {
  const body = encode('{"a":{"b":[1]}}');
  for (const path of [["x"], ["a", "b", 1], ["a", "c", 0]]) {
    assertThrows(() => editJson(body, [{ path }]), RangeError, "there is no such value");
  }
  assertThrows(() => editJson(body, [{ path: ["a", "x"], value: body }]), RangeError);
  assertThrows(() => editJson(body, [{ path: ["a"] }]), RangeError);
});
