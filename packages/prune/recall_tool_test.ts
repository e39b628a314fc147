import { assertEquals } from "@std/assert";
import { argumentsParser } from "@tare/messages/arguments";
import { formatPlaceholder, parsePlaceholder, RECALL_TOOL } from "@tare/prune";

Deno.test("RECALL_TOOL accepts exactly the requests that recallOriginal() answers", () => {
  const parse = argumentsParser(RECALL_TOOL);
  const ref = "0123456789abcdef";
  for (const good of [{ ref }, { ref, lines: "1-9" }, { ref, pattern: "x", offset: 10 }]) {
    assertEquals(parse(JSON.stringify(good)), { ok: true, value: good });
  }
  for (
    const bad of [{}, { ref: 1 }, { ref, lines: 3 }, { ref, offset: -1 }, { ref, offset: 1.5 }, {
      ref,
      path: "x",
    }]
  ) {
    assertEquals(parse(JSON.stringify(bad)).ok, false);
  }
});

Deno.test("RECALL_TOOL shows the model what a placeholder looks like", () => {
  const shown = /`(\[elided: [^`]*\])`/.exec(RECALL_TOOL.function.description ?? "")?.[1] ?? "";
  const placeholder = parsePlaceholder(shown);
  assertEquals(placeholder && formatPlaceholder(placeholder, { recall: true }), shown);
});
