import { assertEquals } from "@std/assert";
import { MESSAGES_PROTOCOL, MessageWriter } from "@tare/wire/internal";
import { encode, requestOf } from "../request_fixture_test.ts";

function read(usage: unknown): unknown {
  const request = requestOf({ model: "m", messages: [] }, MESSAGES_PROTOCOL);
  return MESSAGES_PROTOCOL.writer(request, {}).read(encode({ content: [], usage })).usage;
}

Deno.test("readMessagesUsage() counts the whole prompt, including writes for five minutes and an hour", () => {
  const usage = {
    input_tokens: 3,
    cache_read_input_tokens: 100,
    cache_creation_input_tokens: 50,
    output_tokens: 7,
  };
  const whole = { promptTokens: 153, cachedTokens: 100, cacheWriteTokens: 50, outputTokens: 7 };
  assertEquals(read(usage), whole);
  const apart = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 30 };
  assertEquals(read({ ...usage, cache_creation: apart }), { ...whole, hourWriteTokens: 30 });
  assertEquals(read({ ...usage, cache_creation: null, cache_read_input_tokens: null }), {
    ...whole,
    promptTokens: 53,
    cachedTokens: 0,
  });
  // Unreported writes are 0.
  assertEquals(read({ input_tokens: 3, output_tokens: 7 }), {
    promptTokens: 3,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 7,
  });
  assertEquals([read({}), read(undefined), read({ input_tokens: 0, output_tokens: 5 })], [
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("MessageWriter writes usage that readMessagesUsage() reads", () => {
  const usage = {
    promptTokens: 153,
    cachedTokens: 100,
    cacheWriteTokens: 50,
    hourWriteTokens: 30,
    outputTokens: 7,
  };
  const reply = { id: "msg", model: "m", finishReason: "stop", usage } as const;
  const body = new MessageWriter({ ...reply, message: { role: "assistant", content: "Hi." } }).body();
  assertEquals([read(body.usage), body.stop_reason], [usage, "end_turn"]);
});
