import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop";
import { schemaChecker } from "@tare/messages/arguments";
import { emptyResponse, responseUsage } from "./openai_response.ts";
import { RESPONSE } from "./openai_responses_schema.ts";

Deno.test("emptyResponse() says what was asked for", () => {
  const { id, created_at, status, output, metadata, store, instructions, previous_response_id } =
    emptyResponse({
      model: "agent",
      input: "q",
      metadata: { a: "b" },
      store: false,
      instructions: "i",
      previous_response_id: "resp_0",
    }, { id: "resp_1", createdAtMs: 5_999 });
  assertEquals(
    [id, created_at, status, output, metadata, store, instructions, previous_response_id],
    ["resp_1", 5, "in_progress", [], { a: "b" }, false, "i", "resp_0"],
  );
});

Deno.test("emptyResponse() is a response by its schema", () => {
  const response = emptyResponse({ model: "agent", input: "q" }, { id: "resp_1", createdAtMs: 0 });
  const usage = responseUsage({ ...EMPTY_LEDGER, promptTokens: 3, cachedTokens: 1, outputTokens: 2 });
  assertEquals(schemaChecker(RESPONSE)({ ...response, usage }), undefined);
  assertEquals([response.store, usage?.total_tokens, usage?.input_tokens_details], [true, 5, {
    cached_tokens: 1,
  }]);
});
