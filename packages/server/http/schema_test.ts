import { assertEquals } from "@std/assert";
import { Type } from "typebox";
import { checker, closed, nullable, tagged, textOr } from "./schema.ts";

Deno.test("closed() accepts required and optional properties only", () => {
  const faults = checker(closed({ a: Type.String(), b: Type.Optional(Type.Number()) }));
  assertEquals([faults({ a: "" }), faults({ a: "", b: 1 })], [undefined, undefined]);
  assertEquals(faults({ b: 1 }), "the value must have required property 'a'");
  assertEquals(faults({ a: "", c: 1 }), "the value must not have 'c' (allowed: a, b)");
});

Deno.test("nullable() accepts a value, null, or nothing", () => {
  const faults = checker(Type.Object({ a: nullable(Type.Integer({ minimum: 1 })) }));
  assertEquals([faults({}), faults({ a: null }), faults({ a: 1 })], [undefined, undefined, undefined]);
  assertEquals([faults({ a: 0 }), faults({ a: "" })], ["a must be >= 1", "a must be integer or null"]);
});

Deno.test("tagged() reports the faults of the actual kind only", () => {
  const faults = checker(
    tagged("type", { a: Type.Object({ x: Type.Unknown() }), b: Type.Object({ y: Type.Unknown() }) }),
  );
  assertEquals([faults({ type: "a", x: 1 }), faults({ type: "b", y: 1 })], [undefined, undefined]);
  assertEquals(faults({ type: "a", y: 1 }), "the value must have required property 'x'");
  assertEquals(faults({ type: "c" }), 'type must be "a" or "b"');
  assertEquals(
    checker(tagged("type", { a: Type.Unknown() }))({}),
    "the value must have required property 'type'",
  );
});

Deno.test("textOr() accepts text or a list, empty or not", () => {
  const [any, some] = [checker(textOr(Type.Number())), checker(textOr(Type.Number(), 1))];
  for (const value of ["", "a", [], [1]]) assertEquals(any(value), undefined);
  assertEquals(some([]), "the value must not be empty");
  assertEquals(some(""), "the value must not be empty");
  assertEquals(any(3), "the value must be string or array");
});

Deno.test("checker() reports the first wrong item of a long list with its path, and other faults", () => {
  const message = closed({ role: Type.Enum(["user", "assistant"]), content: Type.String() });
  const faults = checker(
    closed({ messages: Type.Array(message, { maxItems: 40_000 }), model: Type.String() }),
    "it",
  );
  const messages: unknown[] = Array(30_000).fill({ role: "user", content: "" });
  assertEquals(faults({ messages, model: "m" }), undefined);
  assertEquals(faults({ messages }), "it must have required property 'model'");
  const wrong = [...messages, { role: "usr", content: "" }, { role: "user" }];
  assertEquals(faults({ messages: wrong }), 'messages.30000.role must be "user" or "assistant"');
  assertEquals(
    faults({ messages: Array(40_001).fill(messages[0]), model: "" }),
    "messages must not have more than 40000 items",
  );
});
