import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/cases.ts";
import {
  arrayItems,
  asRecord,
  editJson,
  findField,
  isRecord,
  joinBytes,
  type JsonEdit,
  jsonExcess,
  objectFields,
  readJsonAt,
} from "./json.ts";
import { decode } from "./request_fixture_test.ts";

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("objectFields() and arrayItems() return the same values as JSON.parse() in any spelling", () => {
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

Deno.test("objectFields() reads escaped names, and the last of duplicate names", () => {
  const bytes = encode(String.raw`{"mod\u0065l":"a\\","model":"b\"}"}`);
  assertEquals([...objectFields(bytes)].map(([name, span]) => [name, readJsonAt(bytes, span)]), [[
    "model",
    'b"}',
  ]]);
});

Deno.test("objectFields() and arrayItems() throw for incomplete or wrong values", () => {
  for (const text of ["", "[", "{", '{"a"', '{"a":', '{"a":1', '{"a":1 "b"', "{a:1}", '{"a":"x\\"}']) {
    assertThrows(() => objectFields(encode(text)), SyntaxError, "Cannot read the JSON");
  }
  for (const text of ["", "{}", "[1", '["a', "[[1]", "[1 2]", "[,]"]) {
    assertThrows(() => arrayItems(encode(text)), SyntaxError, "Cannot read the JSON");
  }
});

Deno.test("objectFields() and findField() read at most 5,000 fields", () => {
  const fields = (count: number) => Array.from({ length: count }, () => '"a":1');
  const most = encode(`{${fields(4_999)},"b":1}`);
  assertEquals([objectFields(most).size, findField(most, "b") !== undefined], [2, true]);
  const more = encode(`{${fields(5_000)},"b":1}`);
  const expected = "one of its objects has more than 5000 fields";
  assertThrows(() => objectFields(more), RangeError, expected);
  assertEquals(findField(more, "b"), undefined);
  assertEquals(arrayItems(encode(`[${"1,".repeat(5_000)}1]`)).length, 5_001);
});

Deno.test("joinBytes() concatenates pieces", () => {
  assertEquals(joinBytes([encode("a"), encode(""), encode("bc")]), encode("abc"));
});

Deno.test("findField() returns a field before a truncation or an error", () => {
  const find = (text: string) => {
    const bytes = encode(text);
    const span = findField(bytes, "a");
    return span && readJsonAt(bytes, span);
  };
  assertEquals(['{"b":[1],"a":"x"}', '{"a":1,"a":2', '{"a":"x" y'].map(find), ["x", 1, "x"]);
  assertEquals(['{"a":"x', '{"b" 1,"a":"x"}', "[1]", '{"b":1}'].map(find), Array(4).fill(undefined));
});

Deno.test("objectFields() and arrayItems() continue after a known item", () => {
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
      const after = items[at]!.end;
      assertEquals(objectFields(bytes, 0, (name) => name === "list" ? after : undefined), fields);
      assertEquals(arrayItems(bytes, start, after), items.slice(at + 1));
    },
  ));
});

Deno.test("editJson() changes fields, adds others at the start, and nothing else", () => {
  const edited = editJson(encode('{ "a":1.0, "b" : [2],"c":3}'), [
    { path: ["b"], value: encode("[1,2]") },
    { path: ["new"], value: encode("0") },
  ]);
  assertEquals(decode(edited), '{"new":0, "a":1.0, "b" : [1,2],"c":3}');
  assertEquals(decode(editJson(encode("{}"), [{ path: ["a"], value: encode("1") }])), '{"a":1}');
});

Deno.test("editJson() replaces, removes and adds nested values, also in empty objects and lists", () => {
  const item = fc.tuple(fc.jsonValue(), fc.constantFrom("stays", "is removed", "changes", "changes inside"));
  const name = fc.stringMatching(/^[a-z"\\é]{1,3}$/);
  fc.assert(fc.property(
    fc.dictionary(name, fc.tuple(fc.jsonValue(), fc.boolean(), fc.array(item, { maxLength: 6 })), {
      maxKeys: 4,
    }),
    fc.uniqueArray(name.map((text) => `+${text}`), { maxLength: 3 }),
    fc.constantFrom(undefined, 1, "\t"),
    ({ __proto__: _, ...fields }, added, space) => {
      const body: Record<string, unknown> = {};
      const expected: Record<string, unknown> = {};
      const edits: JsonEdit[] = added.map((field) => ({ path: [field], value: encode("[]") }));
      for (const field of added) expected[field] = [];
      for (const [field, [value, isReplaced, items]] of Object.entries(fields)) {
        if (isReplaced) {
          edits.push({ path: [field], value: encode('{"new":1}') });
          [body[field], expected[field]] = [value, { new: 1 }];
          continue;
        }
        body[field] = items.map(([value]) => ({ value, inner: [value] }));
        expected[field] = items.flatMap(([value, fate], at): unknown => {
          if (fate === "is removed") edits.push({ path: [field, at] });
          if (fate === "changes") edits.push({ path: [field, at, "value"], value: encode("0") });
          if (fate === "changes inside") edits.push({ path: [field, at, "inner", 0] });
          if (fate === "is removed") return [];
          return [{ value: fate === "changes" ? 0 : value, inner: fate === "changes inside" ? [] : [value] }];
        });
      }
      const edited = editJson(encode(JSON.stringify(body, null, space)), edits);
      assertEquals(JSON.parse(decode(edited)), JSON.parse(JSON.stringify(expected)));
    },
  ));
});

Deno.test("editJson() adds several fields to an empty object", () => {
  const added = ["a", "b", "c"].map((name) => ({ path: [name], value: encode("1") }));
  assertEquals(decode(editJson(encode(" { } "), added)), ' {"a":1,"b":1,"c":1 } ');
});

Deno.test("editJson() takes time linear in the number of edits", () => {
  const length = 16_000;
  const list = Array.from({ length }, (_, at) => at);
  const edits = list.slice(1).flatMap((at): JsonEdit[] => [
    { path: ["list", at - 1] },
    { path: ["all", "in", at], value: encode("0") },
  ]);
  const body = encode(JSON.stringify({ list, all: { in: list } }));
  const startMs = performance.now();
  const edited = JSON.parse(decode(editJson(body, edits)));
  assertEquals(edited, { list: [length - 1], all: { in: list.map(() => 0) } });
  // Quadratic work takes half a minute.
  assertEquals(performance.now() - startMs < 5_000, true);
});

Deno.test("editJson() throws for paths that don't exist", () => {
  const body = encode('{"a":{"b":[1]}}');
  for (const path of [["x"], ["a", "b", 1], ["a", "c", 0]]) {
    assertThrows(() => editJson(body, [{ path }]), RangeError, "there is no such value");
  }
  assertThrows(() => editJson(body, [{ path: ["a", "x"], value: body }]), RangeError);
});

Deno.test("editJson() removes a field with one of its commas", () => {
  const removed = (text: string, ...path: string[]) => decode(editJson(encode(text), [{ path }]));
  assertEquals(removed('{"a":1}', "a"), "{}");
  assertEquals(removed('{ "a" : 1 , "b":2.0}', "a"), '{  "b":2.0}');
  assertEquals(removed('{"b":2.0 , "a":{"b":1} }', "a"), '{"b":2.0 }');
  assertEquals(removed('{"x":{"b":2,"a":[",\\""],"c":3}}', "x", "a"), '{"x":{"b":2,"c":3}}');
});

const excess = (text: string) => jsonExcess(new TextEncoder().encode(text));

Deno.test("jsonExcess() limits levels, members and fields outside strings", () => {
  const deep = "it is nested more than 200 levels deep";
  const fields = "one of its objects has more than 5000 fields";
  const wide = "it holds more than 100000 values";
  const nested = (levels: number, inner = "") => "[".repeat(levels) + inner + "]".repeat(levels);
  const list = (items: number) => `[${Array(items).fill("1").join()}]`;
  const object = (count: number) => `{${Array.from({ length: count }, (_, n) => `"${n}":{}`).join()}}`;
  const text = "[".repeat(201) + ",".repeat(100_001);
  const cases: [string, string | undefined][] = [
    [nested(200), undefined],
    [nested(201), deep],
    [nested(199, '{"a": {}}'), deep],
    [list(100_000), undefined],
    [list(100_001), wide],
    [`{"a":${list(100_000)}}`, wide],
    [object(5_000), undefined],
    [object(5_001), fields],
    [`[{"a":${object(5_000)},"b":2},${object(5_001)}]`, fields],
    [`[${object(5_000)},${object(5_000)}]`, undefined],
    [`{"a": "${text}"}`, undefined],
    [`["\\"${text}", "\\\\", "${text}"]`, undefined],
    [`["\\\\\\"${text}"]`, undefined],
    ["[]".repeat(1_000), undefined],
    [`["no end ${text}`, undefined],
    ["", undefined],
  ];
  assertEquals(cases.map(([text]) => excess(text)), cases.map(([, expected]) => expected));
});

Deno.test("jsonExcess() accepts small values", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 6 }), (text) => excess(text) === undefined));
});

Deno.test("isRecord() and asRecord() accept only JSON objects", () => {
  const object = { a: 1 };
  const values = [object, [], null, undefined, "a", 1];
  assertEquals(values.map(isRecord), [true, false, false, false, false, false]);
  assertEquals(values.map(asRecord), [object, ...Array(5).fill(undefined)]);
});
