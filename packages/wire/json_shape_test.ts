import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { jsonExcess } from "@tare/wire";

const excess = (text: string, limits = {}) => jsonExcess(new TextEncoder().encode(text), limits);
const DEEP = "it is nested more than 3 levels deep";
const FIELDS = "one of its objects has more than 2 fields";
const WIDE = "it holds more than 4 values";

Deno.test("jsonExcess() counts levels and members, and nothing in texts", () => {
  const limits = { maxDepth: 3, maxMembers: 4, maxFields: 2 };
  const cases: [string, string | undefined][] = [
    ['[[{"a": 1}]]', undefined],
    ["[[[[1]]]]", DEEP],
    ['{"a": {"b": {"c": {}}}}', DEEP],
    ["[1,2,3,4]", undefined],
    ["[1,2,3,4,5]", WIDE],
    ['{"a":[1,2,3,4,5]}', WIDE],
    ['{"a":1,"b":2}', undefined],
    ['{"a":1,"b":2,"c":3}', FIELDS],
    ['[{"a":{"x":1},"b":2,"c":3}]', FIELDS],
    ['[{"a":1},{"a":1}]', undefined],
    ['{"a": "[[[[,,,,,,"}', undefined],
    ['["\\"[[[[", "\\\\", "[[[["]', undefined],
    ['["\\\\\\"[[[[,,,,"]', undefined],
    ["[][][][]", undefined],
    ['["no end [[[[', undefined],
    ["", undefined],
  ];
  assertEquals(cases.map(([text]) => excess(text, limits)), cases.map(([, told]) => told));
});

Deno.test("jsonExcess() lets pass what is smaller than its limits, by default 200 levels and 100,000 values", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 6 }), (text) => excess(text) === undefined));
  assertEquals([excess("[".repeat(200)), excess("[".repeat(201))], [
    undefined,
    "it is nested more than 200 levels deep",
  ]);
  assertEquals(excess(`[${"1,".repeat(99_999)}1]`), undefined);
  assertEquals(excess(`[${"1,".repeat(100_000)}1]`), "it holds more than 100000 values");
});
