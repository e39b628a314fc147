import { assert, assertEquals, assertNotMatch, assertThrows } from "@std/assert";
import fc from "../../tests/cases.ts";
import { loadTokenizer } from "@tare/tiktoken";
import { formatPlaceholder, parsePlaceholder } from "@tare/prune/internal";
import { codePoints } from "../../tests/code_points.ts";

const ref = "2cf24dba5fb0a30e";
const whole = { of: "result", tool: "read_file", bytes: 48213, ref } as const;

Deno.test("formatPlaceholder() states how to get the original: recall, or run again if that is safe", () => {
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

Deno.test("formatPlaceholder() never suggests to run a tool with an unknown stance again", () => {
  assertNotMatch(formatPlaceholder(whole), /run again/);
});

Deno.test("parsePlaceholder() parses the output of formatPlaceholder(), one short line for any tool name", () => {
  const refs = fc.stringMatching(/^[0-9a-f]{16}$/);
  const tools = fc.oneof(
    fc.string({ unit: codePoints(), maxLength: 200 }),
    fc.constantFrom(
      "a\nb",
      "",
      "x]\n[elided: ",
      "поиск",
      "検索",
      "खोज",
      "𝒳".repeat(80),
      "x".repeat(63) + "𝒳𝒳",
    ),
  );
  const of = fc.constantFrom("result" as const, "middle" as const);
  const results = fc.record({ of, tool: tools, bytes: fc.nat(), ref: refs });
  const stretches = fc.record(
    { of: fc.constant("messages" as const), messages: fc.nat(), bytes: fc.nat(), ref: refs },
    { requiredKeys: ["of", "messages", "ref"] },
  );
  const texts = fc.record({ of: fc.constant("text" as const), bytes: fc.nat(), ref: refs });
  const ways = fc.record({
    recall: fc.boolean(),
    stance: fc.constantFrom("rederivable" as const, "once" as const),
  });
  fc.assert(fc.property(fc.oneof(results, stretches, texts), ways, (placeholder, way) => {
    const line = formatPlaceholder(placeholder, way);
    assert(Array.from(line).length < 200 && !line.includes("\n"));
    const read = parsePlaceholder(line);
    if (placeholder.of === "messages" || placeholder.of === "text") {
      return assertEquals(read, { ...placeholder });
    }
    const plain = Array.from(placeholder.tool.replaceAll(/[^\p{L}\p{M}\p{N}_.:/-]+/gu, "_"));
    const tool = plain.slice(0, 64).join("") || "tool";
    assertEquals(read, { ...placeholder, tool });
  }));
});

Deno.test("formatPlaceholder() rejects values that parsePlaceholder() can't parse", () => {
  const bad: readonly (readonly [Parameters<typeof formatPlaceholder>[0], string])[] = [
    [{ ...whole, ref: "2CF24DBA5FB0A30E" }, "ref is"],
    [{ ...whole, ref: "" }, "ref is"],
    [{ ...whole, bytes: -1 }, "bytes is -1; it must be an integer of 0 or more"],
    [{ ...whole, bytes: 1.5 }, "bytes is 1.5"],
    [{ ...whole, bytes: 1e21 }, "bytes is 1e+21"],
    [{ of: "messages", messages: NaN, ref }, "messages is NaN"],
    [{ of: "text", bytes: Infinity, ref }, "bytes is Infinity"],
  ];
  for (const [placeholder, message] of bad) {
    assertThrows(() => formatPlaceholder(placeholder), RangeError, message);
  }
  assertEquals(
    formatPlaceholder({ ...whole, tool: "поиск файлов" }),
    `[elided: поиск_файлов result, 48213 bytes; ref ${ref}]`,
  );
});

Deno.test("formatPlaceholder() accepts a count of zero", () => {
  assertEquals(formatPlaceholder({ ...whole, bytes: 0 }), `[elided: read_file result, 0 bytes; ref ${ref}]`);
  assertEquals(formatPlaceholder({ of: "messages", messages: 0, ref }), `[elided: 0 messages; ref ${ref}]`);
});

Deno.test("formatPlaceholder() counts the messages of a stretch, with its bytes where they are known", () => {
  const stretch = { of: "messages", messages: 12, ref } as const;
  assertEquals(
    [formatPlaceholder(stretch), formatPlaceholder({ ...stretch, bytes: 900 }, { recall: true })],
    [`[elided: 12 messages; ref ${ref}]`, `[elided: 12 messages, 900 bytes; recall with ref ${ref}]`],
  );
});

Deno.test("parsePlaceholder() rejects other texts", () => {
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
