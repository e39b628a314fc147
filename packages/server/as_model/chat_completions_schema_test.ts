import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { checker } from "../http/schema.ts";
import { CHAT_REQUEST, UNSUPPORTED_IN_CHAT } from "./chat_completions.ts";
import { refuseUnsupported } from "./errors.ts";

const messages = [{ role: "user", content: "q" }];

Deno.test("CHAT_REQUEST accepts what clients send and names faults", () => {
  const faults = checker(CHAT_REQUEST, "the body");
  const taken = [
    { messages },
    {
      messages,
      temperature: 1,
      top_p: 1,
      tools: [{ type: "function", function: { name: "f", parameters: {}, strict: null } }, {
        type: "custom",
      }],
      tool_choice: { type: "function", function: { name: "f" } },
      parallel_tool_calls: false,
      frequency_penalty: -2,
      presence_penalty: 2,
      reasoning_effort: "low",
      verbosity: null,
      seed: 1,
      user: "u",
      store: true,
      metadata: { a: "b" },
    },
    {
      messages,
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 1,
      max_completion_tokens: null,
    },
    { messages: [{ role: "assistant", content: null, refusal: null, tool_calls: [] }, ...messages] },
    {
      messages: [{
        role: "user",
        content: [{ type: "input_audio", input_audio: { data: "", format: "wav" } }],
      }],
    },
  ];
  for (const body of taken) assertEquals(faults({ model: "agent", ...body }), undefined);
  const refused = [
    [{}, "the body must have required property 'messages'"],
    [{ messages: [] }, "messages must not be empty"],
    [{ messages: [{ role: "user" }] }, "messages.0 must have required property 'content'"],
    [
      { messages: [{ role: "user", content: "" }] },
      "messages.0.content must not be empty",
    ],
    [
      { messages: [{ role: "user", content: [{ type: "text" }] }] },
      "messages.0.content.0 must have required property 'text'",
    ],
    [{ messages: [{ role: "tool", content: "a" }] }, "messages.0 must have required property 'tool_call_id'"],
    [
      { messages: [{ role: "assistant", tool_calls: [{ type: "function", id: "c" }] }] },
      "messages.0.tool_calls.0 must have required property 'function'",
    ],
    [
      { messages, tools: [{ type: "function", function: {} }] },
      "tools.0.function must have required property 'name'",
    ],
    [{ messages, temperature: 3 }, "temperature must be <= 2"],
    [{ messages, top_p: 2 }, "top_p must be <= 1"],
    [{ messages, seed: 0.5 }, "seed must be integer or null"],
    [{ messages, tool_choice: 1 }, "tool_choice must be string, object or null"],
    [{ messages, max_tokens: 0 }, "max_tokens must be >= 1"],
    [{ messages, stream: "yes" }, "stream must be boolean or null"],
  ] as const;
  for (const [body, fault] of refused) assertEquals(faults({ model: "agent", ...body }), fault);
});

Deno.test("UNSUPPORTED_IN_CHAT contains the parameters that would change the answer", () => {
  const refused = {
    n: 2,
    functions: [{ name: "f" }],
    function_call: { name: "f" },
    top_k: 1,
    min_p: 0.1,
    top_a: 0.1,
    repetition_penalty: 1.1,
    response_format: { type: "json_object" },
    logprobs: true,
    top_logprobs: 1,
    logit_bias: { 1: 2 },
    stop: ["x"],
    audio: { voice: "v" },
    modalities: ["text", "audio"],
    web_search_options: {},
  };
  assertEquals(UNSUPPORTED_IN_CHAT.map(({ parameter }) => parameter), Object.keys(refused));
  for (const [param, value] of Object.entries(refused)) {
    const error = assertThrows(
      () => refuseUnsupported({ model: "agent", [param]: value }, UNSUPPORTED_IN_CHAT),
      ApiError,
    );
    assertEquals(error.details.param, param);
  }
  refuseUnsupported({
    model: "agent",
    n: 1,
    tool_choice: "required",
    functions: [],
    function_call: "none",
    response_format: { type: "text" },
    logprobs: false,
    top_logprobs: 0,
    logit_bias: {},
    stop: [],
    audio: null,
    modalities: ["text"],
    tools: [{ type: "function", function: { name: "f" } }],
    temperature: 2,
  }, UNSUPPORTED_IN_CHAT);
});
