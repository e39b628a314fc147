import { assertEquals } from "@std/assert";
import { UnknownShape } from "./wire_format.ts";

Deno.test("UnknownShape says what is odd", () => {
  const { name, message } = new UnknownShape("a tool is odd");
  assertEquals([name, message], ["UnknownShape", "a tool is odd"]);
});
