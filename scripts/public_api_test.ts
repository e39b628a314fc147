import { assertEquals } from "@std/assert";
import { publicApiFaults } from "./public_api.ts";

const literal = { kind: "typeLiteral", value: {} };
const promise = { kind: "typeRef", value: { typeName: "Promise", typeParams: [literal] } };
const callback = { kind: "fnOrConstructor", value: { params: [{ tsType: literal }] } };
const derived = { kind: "typeRef", value: { typeName: "Parameters" } };
const example = { tags: [{ kind: "example" }] };

Deno.test("publicApiFaults() reports faults in documentation", () => {
  const of = (name: string, def: object, jsDoc = {}) => ({
    name,
    declarations: [{ kind: "function", def, jsDoc }],
  });
  const symbols = [
    of("good", { params: [{ tsType: callback }], returnType: { kind: "keyword" } }, example),
    of("bare", {}),
    of("options", { params: [{ left: { tsType: literal } }] }, example),
    of("results", { returnType: promise }, example),
    {
      name: "Results",
      declarations: [{ kind: "interface", def: { properties: [{ tsType: derived }] } as object }],
    },
  ];
  assertEquals(publicApiFaults({ name: "@tare/x", symbols }), [
    "@tare/x: results and Results differ only in case.",
    "@tare/x: bare has no @example.",
    "@tare/x: options has an anonymous option type.",
    "@tare/x: results has an anonymous result type.",
    "@tare/x: Results is declared by Parameters<>.",
  ]);
});
