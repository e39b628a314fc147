import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { checker } from "../http/schema.ts";
import { refuseUnsupported } from "./errors.ts";
import { RESPONSES_REQUEST, UNSUPPORTED_IN_RESPONSES } from "./responses_schema.ts";

Deno.test("RESPONSES_REQUEST accepts what clients send and names faults", () => {
  const faults = checker(RESPONSES_REQUEST, "the body");
  const taken = [
    { input: "q", instructions: null, store: false, previous_response_id: "r", metadata: {} },
    { input: [{ role: "user", content: [{ type: "input_text", text: "q" }] }], temperature: 1, include: [] },
    { input: [{ type: "item_reference", id: "i" }, { type: "function_call_output", output: "o" }] },
  ];
  for (const body of taken) assertEquals(faults({ model: "agent", ...body }), undefined);
  const refused = [
    [{}, "the body must have required property 'input'"],
    [{ input: "" }, "input must not be empty"],
    [
      { input: [{ role: "user", content: [{ type: "input_text" }] }] },
      "input.0.content.0 must have required property 'text'",
    ],
    [{ input: "q", max_output_tokens: 0 }, "max_output_tokens must be >= 1"],
    [{ input: "q", metadata: { a: 1 } }, "metadata.a must be string"],
  ] as const;
  for (const [body, fault] of refused) assertEquals(faults({ model: "agent", ...body }), fault);
});

Deno.test("UNSUPPORTED_IN_RESPONSES contains the parameters that would change the answer", () => {
  const refused = {
    top_k: 1,
    min_p: 0.1,
    top_a: 0.1,
    repetition_penalty: 1.1,
    text: { format: { type: "json_schema" } },
    background: true,
    conversation: "c",
    prompt: { id: "p" },
    max_tool_calls: 1,
    top_logprobs: 2,
  };
  assertEquals(UNSUPPORTED_IN_RESPONSES.map(({ parameter }) => parameter), Object.keys(refused));
  for (const [param, value] of Object.entries(refused)) {
    const error = assertThrows(
      () => refuseUnsupported({ model: "agent", [param]: value }, UNSUPPORTED_IN_RESPONSES),
      ApiError,
    );
    assertEquals(error.details.param, param);
  }
  refuseUnsupported({
    model: "agent",
    tool_choice: "none",
    text: { format: { type: "text" }, verbosity: "low" },
    background: false,
    conversation: null,
    top_logprobs: 0,
    tools: [{ type: "web_search" }],
    include: ["reasoning.encrypted_content"],
    reasoning: { summary: "auto" },
    truncation: "auto",
  }, UNSUPPORTED_IN_RESPONSES);
});
