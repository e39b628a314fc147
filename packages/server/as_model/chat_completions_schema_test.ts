import { assertEquals, assertThrows } from "@std/assert";
import { checker } from "../http/schema.ts";
import { CHAT_REQUEST, UNSUPPORTED_IN_CHAT } from "./chat_completions_schema.ts";
import { ApiError } from "@tare/wire";
import { refuseUnsupported } from "./unsupported.ts";

const messages = [{ role: "user", content: "q" }];

Deno.test("CHAT_REQUEST takes what clients send and names what is wrong", () => {
  const faults = checker(CHAT_REQUEST, "the body");
  const taken = [
    { messages },
    {
      messages,
      temperature: 1,
      top_p: 1,
      tools: [{}],
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
    [{ messages: [] }, "messages must NOT have fewer than 1 items"],
    [{ messages: [{ role: "user" }] }, "messages.0 must have required property 'content'"],
    [
      { messages: [{ role: "user", content: "" }] },
      "messages.0.content must NOT have fewer than 1 characters",
    ],
    [
      { messages: [{ role: "user", content: [{ type: "text" }] }] },
      "messages.0.content.0 must have required property 'text'",
    ],
    [{ messages, max_tokens: 0 }, "max_tokens must be >= 1"],
    [{ messages, stream: "yes" }, "stream must be boolean,null"],
  ] as const;
  for (const [body, fault] of refused) assertEquals(faults({ model: "agent", ...body }), fault);
});

Deno.test("UNSUPPORTED_IN_CHAT are of those parameters without which the answer would be wrong", () => {
  const refused = {
    n: 2,
    tool_choice: "required",
    function_call: { name: "f" },
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
    tool_choice: "auto",
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
