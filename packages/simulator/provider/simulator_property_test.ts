import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { countRequestTokens, type ToolDefinition } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { type Simulator, simulator } from "@tare/simulator";
import { callPairs } from "../../../tests/call_pairs.ts";
import { conversations } from "../../../tests/conversations.ts";

const characters = { encode: (text: string) => Array.from(text, (character) => character.charCodeAt(0)) };
const count = (text: string) => characters.encode(text).length;
const tool: ToolDefinition = { type: "function", function: { name: "f", description: "d".repeat(2000) } };

function provider(options: { readonly profile?: Profile } = {}): Simulator {
  return simulator({ model: () => ({ content: "Done." }), tokenizer: characters, now: () => 0, ...options });
}

function post(to: Simulator, body: object): Promise<Response> {
  const text = JSON.stringify({ model: "m", ...body });
  return to.fetch(new Request("http://provider/v1/chat/completions", { method: "POST", body: text }));
}

function fields(value: unknown): [object, string][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap((
    [key, inner],
  ) => [[value, key] as [object, string], ...fields(inner)]);
}

Deno.test("simulator() handles or rejects any request", async () => {
  const whole = {
    messages: [
      { role: "system", content: "Be brief.", name: "operator" },
      {
        role: "user",
        content: [
          { type: "text", text: "See." },
          { type: "image_url", image_url: { url: "x", detail: "low" } },
          { type: "input_audio", input_audio: { data: "x", format: "wav" } },
          { type: "file", file: { file_data: "x" } },
        ],
      },
      {
        role: "assistant",
        content: [{ type: "refusal", refusal: "No." }],
        reasoning_content: "Hm.",
        tool_calls: [
          { id: "1", type: "function", function: { name: "f", arguments: "{}" } },
          { id: "2", type: "custom", custom: { name: "g", input: "x" } },
        ],
      },
      { role: "tool", tool_call_id: "1", content: "ok" },
      { role: "tool", tool_call_id: "2", content: "ok" },
    ],
    tools: [{
      type: "function",
      function: { name: "f", description: "F.", parameters: { type: "object", properties: {} } },
    }],
    stream: true,
    stream_options: { include_usage: true },
  };
  const junk = fc.constantFrom(undefined, null, "", "text", 1, true, [], {}, [null], [{}]);
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.nat(), junk), { maxLength: 3 }), async (changes) => {
      const body = structuredClone(whole);
      for (const [at, value] of changes) {
        const all = fields(body);
        const [place, key] = all[at % all.length]!;
        // A copy, because an array within itself can't be serialized.
        Reflect.set(place, key, structuredClone(value));
      }
      const response = await post(provider(), body);
      await response.text();
      statuses.add(response.status);
    }),
    { numRuns: cases(100) },
  );
  assertEquals([...statuses].sort(), [200, 400]);
});

Deno.test("simulator() counts every prompt like countRequestTokens() and serves earlier prefixes from the cache", async () => {
  const profiles = Object.values(PROFILES).filter((profile) => profile.name !== "none");
  await fc.assert(
    fc.asyncProperty(
      conversations(),
      fc.constantFrom(...profiles),
      fc.boolean(),
      async (messages, profile, tools) => {
        const to = provider({ profile });
        let previous = 0;
        for (let end = 1; end <= messages.length; end++) {
          const body = { messages: messages.slice(0, end), ...(tools && { tools: [tool] }) };
          const { pairs, unanswered, orphans } = callPairs(body.messages);
          const response = await post(to, body);
          if (!response.ok) continue; // calls without their results, or something between them
          assertEquals([unanswered, orphans], [[], []], `${pairs.length} pairs`);
          await response.body?.cancel();
          const request = to.requests.at(-1)!;
          assertEquals(request.promptTokens, countRequestTokens(body, count));
          assert(request.cachedTokens < request.promptTokens);
          const whole = Math.floor(previous / profile.blockTokens) * profile.blockTokens;
          if (whole >= profile.minTokens) assert(request.cachedTokens >= whole);
          previous = request.promptTokens;
        }
      },
    ),
    { numRuns: cases(10) },
  );
});
