import { assertEquals } from "@std/assert";
import { type JsonRecord, mergeDelta } from "@tare/wire";

function merged(...deltas: readonly JsonRecord[]): JsonRecord {
  return deltas.reduce(mergeDelta, {});
}

Deno.test("mergeDelta() joins texts, appends lists, merges objects, replaces the rest, and null adds nothing", () => {
  assertEquals(
    merged(
      { custom: "a", list: [1], object: { text: "x", n: 1 }, flag: false, set: null, none: null },
      { custom: "b", list: [2, 3], object: { text: "y", n: 2 }, flag: true, set: "c" },
      { custom: null, none: null },
    ),
    { custom: "ab", list: [1, 2, 3], object: { text: "xy", n: 2 }, flag: true, set: "c", none: null },
  );
});

Deno.test("mergeDelta() puts the parts of reasoning together, signatures included", () => {
  const text = (fields: JsonRecord) => ({
    reasoning_details: [{ type: "reasoning.text", index: 0, format: "v1", ...fields }],
  });
  assertEquals(
    merged(
      text({ text: "Let " }),
      text({ text: "me", id: "r1" }),
      text({ text: null, signature: "sig" }),
      { reasoning_details: [{ type: "reasoning.encrypted", index: 1, data: "AA" }] },
      { reasoning_details: [{ type: "reasoning.encrypted", index: 2, data: "BB" }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 3, summary: "I " }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 3, summary: "saw." }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 4, summary: "And" }] },
    ),
    {
      reasoning_details: [
        { type: "reasoning.text", index: 0, format: "v1", text: "Let me", id: "r1", signature: "sig" },
        { type: "reasoning.encrypted", index: 1, data: "AA" },
        { type: "reasoning.encrypted", index: 2, data: "BB" },
        { type: "reasoning.summary", index: 3, summary: "I saw." },
        { type: "reasoning.summary", index: 4, summary: "And" },
      ],
    },
  );
});

Deno.test("mergeDelta() keeps whole parts apart", () => {
  const citation = (url: string) => ({ annotations: [{ type: "url_citation", url_citation: { url } }] });
  assertEquals(merged(citation("a"), citation("b")), {
    annotations: [...citation("a").annotations, ...citation("b").annotations],
  });
});
