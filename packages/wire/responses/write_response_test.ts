import { assertEquals } from "@std/assert";
import { ResponseEventWriter } from "@tare/wire/internal";

const HEX = "0123456789abcdef0123456789abcdef";
const USAGE = { promptTokens: 3, cachedTokens: 1, outputTokens: 2 };

function write(
  parts: readonly Parameters<ResponseEventWriter["add"]>[0][],
  end: Parameters<ResponseEventWriter["end"]>[0]["finish"] | { status: number },
) {
  const draft = ResponseEventWriter.empty({ model: "m" }, { id: `resp_${HEX}`, createdAtMs: 1_000 });
  const writer = new ResponseEventWriter(draft);
  const events = [
    ...writer.begin(),
    ...parts.flatMap((part) => writer.add(part)),
    ...typeof end === "string"
      ? writer.end({ finish: end, usage: USAGE, endedAtMs: 2_999 })
      : writer.fail({ ...end, message: "No." }),
  ];
  assertEquals(events.at(-1)?.response, writer.response);
  return { events, response: writer.response };
}

const text = (text: string): Parameters<ResponseEventWriter["add"]>[0] => ({ type: "text", text });
const reasoning = (text: string): Parameters<ResponseEventWriter["add"]>[0] => ({ type: "reasoning", text });

Deno.test("ResponseEventWriter.empty() repeats the request's settings", () => {
  const { id, created_at, status, output, metadata, store, instructions, previous_response_id } =
    ResponseEventWriter.empty({
      model: "m",
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

Deno.test("ResponseEventWriter writes a complete item for reasoning and a message for text", () => {
  const { events, response } = write([reasoning("Hm."), text("a"), text("b")], "stop");
  assertEquals(events.map(({ type, output_index, delta, text }) => [type, output_index, delta ?? text]), [
    ["response.created", undefined, undefined],
    ["response.in_progress", undefined, undefined],
    ["response.output_item.added", 0, undefined],
    ["response.reasoning_summary_part.added", 0, undefined],
    ["response.reasoning_summary_text.delta", 0, "Hm."],
    ["response.reasoning_summary_text.done", 0, "Hm."],
    ["response.reasoning_summary_part.done", 0, undefined],
    ["response.output_item.done", 0, undefined],
    ["response.output_item.added", 1, undefined],
    ["response.content_part.added", 1, undefined],
    ["response.output_text.delta", 1, "a"],
    ["response.output_text.delta", 1, "b"],
    ["response.output_text.done", 1, "ab"],
    ["response.content_part.done", 1, undefined],
    ["response.output_item.done", 1, undefined],
    ["response.completed", undefined, undefined],
  ]);
  assertEquals(events.map(({ sequence_number }) => sequence_number), events.map((_, index) => index));
  assertEquals([response.status, response.completed_at, response.usage], ["completed", 2, {
    input_tokens: 3,
    input_tokens_details: { cached_tokens: 1 },
    output_tokens: 2,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 5,
  }]);
  assertEquals(response.output, [
    {
      id: `rs_${HEX}_0`,
      type: "reasoning",
      status: "completed",
      summary: [{ type: "summary_text", text: "Hm." }],
    },
    {
      id: `msg_${HEX}_1`,
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "ab", annotations: [], logprobs: [] }],
    },
  ]);
});

Deno.test("ResponseEventWriter reports why a response is incomplete", () => {
  const ended = (["length", "content_filter"] as const).map((finish) => {
    const { events, response: { status, incomplete_details, output, completed_at } } = write(
      [text("a")],
      finish,
    );
    return [events.at(-1)?.type, status, incomplete_details?.reason, output[0]?.status, completed_at];
  });
  assertEquals(ended, [
    ["response.incomplete", "incomplete", "max_output_tokens", "incomplete", null],
    ["response.incomplete", "incomplete", "content_filter", "incomplete", null],
  ]);
});

Deno.test("ResponseEventWriter reports a failure with a code of the format", () => {
  const failed = [429, 400, 502].map((status) => {
    const { events, response } = write([text("a")], { status });
    return [events.at(-1)?.type, response.status, response.error, response.output[0]?.status];
  });
  assertEquals(
    failed,
    ["rate_limit_exceeded", "invalid_prompt", "server_error"].map((code) => [
      "response.failed",
      "failed",
      { code, message: "No." },
      "incomplete",
    ]),
  );
});

Deno.test("ResponseEventWriter writes no item without content", () => {
  const { events, response } = write([], "stop");
  assertEquals([events.length, response.status, response.output], [3, "completed", []]);
});

Deno.test("ResponseEventWriter.hexOf() returns the common digits of a response and its items", () => {
  const ids = [`resp_${HEX}`, `msg_${HEX}_0`, `rs_${HEX}_12`, `x_${HEX}`, "msg_1", `resp_${HEX}x`];
  assertEquals(ids.map(ResponseEventWriter.hexOf), [HEX, HEX, HEX, undefined, undefined, undefined]);
});
