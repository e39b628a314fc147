import { assertEquals } from "@std/assert";
import { ask, completed, delta, reply } from "./openai_fixture_test.ts";

/** The message that these deltas make, without what every message has. */
async function merged(...deltas: readonly Record<string, unknown>[]): Promise<Record<string, unknown>> {
  const asked = await ask(reply(...deltas.map((fields) => delta(fields)), delta({ content: "." }, "stop")));
  const { role: _, content: __, ...fields } = { ...completed(asked).message };
  return fields;
}

Deno.test("mergeDelta() joins texts, appends lists, merges objects and replaces the rest", async () => {
  assertEquals(
    await merged(
      { custom: "a", list: [1], object: { text: "x", n: 1 }, flag: false, nothing: null },
      { custom: "b", list: [2, 3], object: { text: "y", n: 2 }, flag: true, custom2: null },
      { custom: null },
    ),
    { custom: "ab", list: [1, 2, 3], object: { text: "xy", n: 2 }, flag: true },
  );
});

Deno.test("mergeDelta() puts the parts of reasoning together, signatures included", async () => {
  const text = (fields: Record<string, unknown>) => ({
    reasoning_details: [{ type: "reasoning.text", index: 0, format: "v1", ...fields }],
  });
  assertEquals(
    await merged(
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

Deno.test("mergeDelta() keeps whole parts apart", async () => {
  const citation = (url: string) => ({ annotations: [{ type: "url_citation", url_citation: { url } }] });
  assertEquals(await merged(citation("a"), citation("b")), {
    annotations: [...citation("a").annotations, ...citation("b").annotations],
  });
});
