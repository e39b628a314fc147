import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import { archiveRef } from "@tare/prune";
import { expand } from "../../tests/expand_compressed.ts";
import { anyResult, type ToolResult } from "../../tests/tool_results.ts";
import { completion, gatewayed, post, UPSTREAM } from "./fixture_test.ts";

const USAGE = { input_tokens: 900, output_tokens: 5, total_tokens: 905 };

function answer(url: string): Response {
  if (url.endsWith("/completions")) return completion({ content: "Ok." });
  const id = { id: "r1", model: "m", usage: USAGE };
  const content = [{ type: url.includes("/responses") ? "output_text" : "text", text: "Ok." }];
  return Response.json(
    url.includes("/responses")
      ? {
        ...id,
        object: "response",
        status: "completed",
        output: [{ type: "message", role: "assistant", content }],
      }
      : { ...id, type: "message", role: "assistant", content, stop_reason: "end_turn" },
  );
}

type Send = (result: ToolResult, id: string) => Promise<string>;

function protocols(): Readonly<Record<string, Send>> {
  const { fetch, seen } = gatewayed(({ url }) => answer(url), {
    upstreams: { chat: UPSTREAM, responses: UPSTREAM, messages: UPSTREAM },
  });
  const send = async (path: string, body: object) => {
    const headers = { "x-api-key": "k", "anthropic-version": "2023-06-01" };
    await (await fetch(post({ model: "m", ...body }, headers, path))).text();
    return seen.at(-1)!.body;
  };
  const schema = { type: "object", properties: {} };
  return {
    chat: async ({ tool, args, text }, id) => {
      const call = { id, type: "function", function: { name: tool, arguments: JSON.stringify(args) } };
      const { messages } = await send("/chat/completions", {
        messages: [
          { role: "user", content: id },
          { role: "assistant", content: null, tool_calls: [call] },
          { role: "tool", tool_call_id: id, content: text },
        ],
        tools: [{ type: "function", function: { name: tool, parameters: schema } }],
      });
      return messages.at(-1).content;
    },
    responses: async ({ tool, args, text }, id) => {
      const { input } = await send("/responses", {
        input: [
          { role: "user", content: id },
          { type: "function_call", call_id: id, name: tool, arguments: JSON.stringify(args) },
          { type: "function_call_output", call_id: id, output: text },
        ],
        tools: [{ type: "function", name: tool, parameters: schema, strict: false }],
      });
      return input.at(-1).output;
    },
    messages: async ({ tool, args, text }, id) => {
      const { messages } = await send("/messages", {
        max_tokens: 100,
        messages: [
          { role: "user", content: id },
          { role: "assistant", content: [{ type: "tool_use", id, name: tool, input: args }] },
          { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: text }] },
        ],
        tools: [{ name: tool, input_schema: schema }],
      });
      const { content } = messages.at(-1).content[0];
      return typeof content === "string" ? content : content[0].text;
    },
  };
}

for (const protocol of Object.keys(protocols())) {
  Deno.test(`compression over ${protocol}: every result is rebuilt from the upstream's text, or recalled`, async () => {
    const send = protocols()[protocol]!;
    let compressed = 0;
    let count = 0;
    await fc.assert(
      fc.asyncProperty(anyResult, async (result) => {
        const visible = await send(result, `call_${++count}`);
        if (visible === result.text) return;
        compressed++;
        const { text, ref } = expand(visible);
        assertEquals(ref ?? text, ref === undefined ? result.text : await archiveRef(result.text));
      }),
      { numRuns: cases(80) },
    );
    assert(compressed > 4, `${compressed}`);
  });
}
