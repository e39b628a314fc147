import { assert, assertEquals, assertNotMatch } from "@std/assert";
import fc from "fast-check";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { bytesFromText, formatPlaceholder, parsePlaceholder } from "@tare/prune";

const ref = "2cf24dba5fb0a30e";
const whole = { tool: "read_file", bytes: 48213, ref, middle: false };

Deno.test("formatPlaceholder() says how to get the original back: recall, or run again where that is safe", () => {
  assertEquals(
    (["rederivable", "once", "keep"] as const).flatMap((stance) =>
      [true, false].map((recall) => formatPlaceholder(whole, { recall, stance }))
    ),
    [
      `[elided: read_file result, 48213 bytes; recall with ref ${ref}]`,
      `[elided: read_file result, 48213 bytes; run again if needed; ref ${ref}]`,
      `[elided: read_file result, 48213 bytes; recall with ref ${ref}]`,
      `[elided: read_file result, 48213 bytes; ref ${ref}]`,
      `[elided: read_file result, 48213 bytes; recall with ref ${ref}]`,
      `[elided: read_file result, 48213 bytes; ref ${ref}]`,
    ],
  );
});

Deno.test("formatPlaceholder() never says 'run again' of a tool whose stance is unknown", () => {
  assertNotMatch(formatPlaceholder(whole), /run again/);
});

Deno.test("parsePlaceholder() reads back what formatPlaceholder() wrote, one short line for any tool name", () => {
  const placeholders = fc.record({
    tool: fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.constantFrom("a\nb", "", "x]\n[elided: "),
    ),
    bytes: fc.nat(),
    ref: fc.stringMatching(/^[0-9a-f]{16}$/),
    middle: fc.boolean(),
  });
  const ways = fc.record({
    recall: fc.boolean(),
    stance: fc.constantFrom("rederivable" as const, "once" as const),
  });
  fc.assert(fc.property(placeholders, ways, (placeholder, way) => {
    const line = formatPlaceholder(placeholder, way);
    assert(bytesFromText(line).length < 200 && !line.includes("\n"));
    const { tool, ...rest } = parsePlaceholder(line)!;
    const { tool: name, ...expected } = placeholder;
    assertEquals(rest, expected);
    if (/^[\w.:/-]{1,64}$/.test(name)) assertEquals(tool, name);
  }));
});

Deno.test("parsePlaceholder() takes nothing else for a placeholder", () => {
  const line = formatPlaceholder(whole);
  for (
    const other of ["", "text", `${line}\n`, `\n${line}`, `${line} `, line.replace(ref, "xyz"), line.slice(1)]
  ) {
    assertEquals(parsePlaceholder(other), undefined);
  }
});

Deno.test("formatPlaceholder() takes about 35 tokens", async () => {
  const { count } = await loadTokenizer();
  for (
    const tool of ["list_files", "read_file", "search_files", "write_file", "edit_file", "shell", "recall"]
  ) {
    for (const way of [{ recall: true }, { stance: "rederivable" }, {}] as const) {
      const tokens = count(formatPlaceholder({ ...whole, tool }, way));
      assert(tokens <= 40, `${tokens} tokens`);
    }
  }
});
