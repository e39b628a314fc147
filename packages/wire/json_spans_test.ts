import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { arrayItems, findField, joinBytes, objectFields, readJsonAt } from "./json_spans.ts";

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("objectFields() and arrayItems() find the same values as JSON.parse(), in any spelling", () => {
  fc.assert(fc.property(
    fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue()),
    fc.constantFrom(undefined, 1, "\t"),
    (value, space) => {
      const bytes = encode(` ${JSON.stringify(value, null, space)}\n`);
      const fields = [...objectFields(bytes)].map(([name, span]) => [name, readJsonAt(bytes, span)]);
      assertEquals(fields, Object.entries(JSON.parse(JSON.stringify(value))));
      const list = encode(JSON.stringify(Object.values(value), null, space));
      assertEquals(
        arrayItems(list).map((span) => readJsonAt(list, span)),
        JSON.parse(JSON.stringify(Object.values(value))),
      );
    },
  ));
});

Deno.test("objectFields() reads escaped names, and of a name that stands twice the last", () => {
  const bytes = encode(String.raw`{"mod\u0065l":"a\\","model":"b\"}"}`);
  assertEquals([...objectFields(bytes)].map(([name, span]) => [name, readJsonAt(bytes, span)]), [[
    "model",
    'b"}',
  ]]);
});

Deno.test("objectFields() and arrayItems() refuse what doesn't end or isn't one", () => {
  for (const text of ["", "[", "{", '{"a"', '{"a":', '{"a":1', '{"a":1 "b"', "{a:1}", '{"a":"x\\"}']) {
    assertThrows(() => objectFields(encode(text)), SyntaxError, "Cannot read the JSON");
  }
  for (const text of ["", "{}", "[1", '["a', "[[1]", "[1 2]", "[,]"]) {
    assertThrows(() => arrayItems(encode(text)), SyntaxError, "Cannot read the JSON");
  }
});

Deno.test("objectFields() and findField() look at 5,000 fields, and no further", () => {
  const fields = (count: number) => Array.from({ length: count }, () => '"a":1');
  const most = encode(`{${fields(4_999)},"b":1}`);
  assertEquals([objectFields(most).size, findField(most, "b") !== undefined], [2, true]);
  const more = encode(`{${fields(5_000)},"b":1}`);
  const told = "one of its objects has more than 5000 fields";
  assertThrows(() => objectFields(more), RangeError, told);
  assertEquals(findField(more, "b"), undefined);
  assertEquals(arrayItems(encode(`[${"1,".repeat(5_000)}1]`)).length, 5_001);
});

Deno.test("joinBytes() puts pieces one behind the other", () => {
  assertEquals(joinBytes([encode("a"), encode(""), encode("bc")]), encode("abc"));
});

Deno.test("findField() finds what stands before the place where the text ends or is wrong", () => {
  const find = (text: string) => {
    const bytes = encode(text);
    const span = findField(bytes, "a");
    return span && readJsonAt(bytes, span);
  };
  assertEquals(['{"b":[1],"a":"x"}', '{"a":1,"a":2', '{"a":"x" y'].map(find), ["x", 1, "x"]);
  assertEquals(['{"a":"x', '{"b" 1,"a":"x"}', "[1]", '{"b":1}'].map(find), Array(4).fill(undefined));
});

Deno.test("objectFields() and arrayItems() go on behind an item that is known", () => {
  fc.assert(fc.property(
    fc.array(fc.jsonValue(), { minLength: 1 }),
    fc.constantFrom(undefined, 1, "\t"),
    fc.nat(),
    (values, space, number) => {
      const bytes = encode(JSON.stringify({ a: [1], list: values, z: {} }, null, space));
      const fields = objectFields(bytes);
      const start = fields.get("list")!.start;
      const items = arrayItems(bytes, start);
      const at = number % items.length;
      const behind = items[at]!.end;
      assertEquals(objectFields(bytes, 0, (name) => name === "list" ? behind : undefined), fields);
      assertEquals(arrayItems(bytes, start, behind), items.slice(at + 1));
    },
  ));
});
