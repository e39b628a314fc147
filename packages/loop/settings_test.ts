import { assertEquals } from "@std/assert";
import type { ModelSettings } from "@tare/messages";
import { ask as askMessages, reply as messagesReply, text } from "./anthropic/fixture_test.ts";
import { ask, delta, reply } from "./provider_fixture_test.ts";

const SETTINGS: ModelSettings = {
  temperature: 0.5,
  top_p: 0.9,
  reasoning_effort: "low",
  tool_choice: "required",
  parallel_tool_calls: false,
};

Deno.test("openaiModel() sends settings unchanged, overridden by its configured fields", async () => {
  const settings = { ...SETTINGS, seed: 7, frequency_penalty: 1, presence_penalty: -1, verbosity: "low" };
  const outcome = await ask(reply(delta({ content: "ok" }, "stop")), {
    request: { settings },
    extraBody: { top_p: 1 },
  });
  const { path: _, model: _model, messages: _messages, stream: _stream, stream_options: _options, ...rest } =
    outcome.bodies[0]!;
  assertEquals(rest, { ...settings, top_p: 1 });
});

Deno.test("anthropicModel() sends the settings that its format supports, converted", async () => {
  const settingsOf = async (settings: ModelSettings) => {
    const { bodies, error } = await askMessages(messagesReply("end_turn", ...text(0, "ok")), {
      request: { settings },
    });
    const { temperature, top_p, output_config, tool_choice } = bodies[0] ?? {};
    return error ? [error.code, error.param] : { temperature, top_p, output_config, tool_choice };
  };
  assertEquals(await settingsOf(SETTINGS), {
    temperature: 0.5,
    top_p: 0.9,
    output_config: { effort: "low" },
    tool_choice: { type: "any", disable_parallel_tool_use: true },
  });
  const tool_choice = { type: "function", function: { name: "f" } } as const;
  assertEquals(await settingsOf({ tool_choice, parallel_tool_calls: true }), {
    temperature: undefined,
    top_p: undefined,
    output_config: undefined,
    tool_choice: { type: "tool", name: "f" },
  });
  for (
    const refused of [
      { seed: 1 },
      { frequency_penalty: 1 },
      { presence_penalty: 1 },
      { verbosity: "low" },
      { temperature: 1.5 },
      { reasoning_effort: "minimal" },
    ]
  ) assertEquals(await settingsOf(refused), ["bad_request", Object.keys(refused)[0]]);
});

Deno.test("openaiModel() reports which setting a provider refused, and none for other refusals", async () => {
  const refusal = (message: string) => Response.json({ error: { message } }, { status: 400 });
  const request = { settings: { temperature: 0.5, seed: 7 } };
  const param = async (message: string) => (await ask(refusal(message), { request })).error?.param;
  assertEquals(await param("Unsupported value: 'seed' isn't known"), "seed");
  assertEquals(await param("The messages are bad"), undefined);
});
