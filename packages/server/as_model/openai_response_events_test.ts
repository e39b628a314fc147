import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop";
import { schemaChecker } from "@tare/messages/arguments";
import { OpenaiError } from "./openai_error.ts";
import { emptyResponse, type ResponseBody } from "./openai_response.ts";
import { hexOf, type ResponseEvent, responseEvents } from "./openai_response_events.ts";
import { RESPONSE_EVENT } from "./openai_responses_schema.ts";
import type { TurnAnswer, TurnPart } from "./turn_parts.ts";

const HEX = "0123456789abcdef0123456789abcdef";
const draft = emptyResponse({ model: "agent", input: "q" }, { id: `resp_${HEX}`, createdAtMs: 1_000 });
const faults = schemaChecker(RESPONSE_EVENT);

/** Plays parts, then an answer or a failure, and gives the events. */
async function play(parts: readonly TurnPart[], end: TurnAnswer["finish"] | Error = "stop") {
  const events: ResponseEvent[] = [];
  const ended: ResponseBody[] = [];
  const turn = async function* (): AsyncGenerator<TurnPart, TurnAnswer> {
    yield* parts;
    if (end instanceof Error) throw end;
    return { text: "", progress: "", finish: end, ledger: EMPTY_LEDGER };
  };
  const all = responseEvents(turn(), {
    draft,
    now: () => 2_000,
    ended: (response) => void ended.push(response),
  });
  let error: unknown;
  try {
    for await (const event of all) {
      assertEquals(faults(event), undefined);
      events.push(event);
    }
  } catch (thrown) {
    error = thrown;
  }
  return { events, ended, error, last: events.at(-1)?.response as ResponseBody | undefined };
}

const text = (text: string): TurnPart => ({ type: "text", text });
const progress = (text: string): TurnPart => ({ type: "progress", text });

Deno.test("responseEvents() gives a reasoning item for progress and a message for text, each whole", async () => {
  const { events, ended, last } = await play([progress("Hm."), text("a"), text("b")]);
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
  assertEquals(last, ended[0]);
  assertEquals([last?.status, last?.completed_at, last?.output], ["completed", 2, [
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
  ]]);
});

Deno.test("responseEvents() says why a response is incomplete", async () => {
  const end = async (finish: TurnAnswer["finish"]) => {
    const { events, last } = await play([text("a")], finish);
    const { status, incomplete_details, output, completed_at } = last!;
    return [events.at(-1)?.type, status, incomplete_details?.reason, output[0]?.status, completed_at];
  };
  assertEquals(await end("length"), [
    "response.incomplete",
    "incomplete",
    "max_output_tokens",
    "incomplete",
    null,
  ]);
  assertEquals((await end("content_filter"))[2], "content_filter");
});

Deno.test("responseEvents() tells of a failure in the middle, and throws it", async () => {
  const failure = new OpenaiError(429, "Slow.", { code: "rate_limit_exceeded" });
  const { events, ended, error, last } = await play([text("a")], failure);
  assertEquals([events.at(-1)?.type, last?.status, last?.error, last?.output[0]?.status, error, ended], [
    "response.failed",
    "failed",
    { code: "rate_limit_exceeded", message: "Slow." },
    "incomplete",
    failure,
    [],
  ]);
  const codes = [400, 502].map(async (status) => {
    const { last } = await play([text("a")], new OpenaiError(status, "No.", { code: "c" }));
    return last?.error?.code;
  });
  assertEquals(await Promise.all(codes), ["invalid_prompt", "server_error"]);
});

Deno.test("responseEvents() throws a failure before anything is said, without an event", async () => {
  const { events, error } = await play([], new Error("No."));
  assertEquals([events, (error as Error).message], [[], "No."]);
});

Deno.test("responseEvents() of a turn that says nothing has no output", async () => {
  const { events, last } = await play([]);
  assertEquals([events.length, last?.status, last?.output], [3, "completed", []]);
});

Deno.test("hexOf() gives what a response and its items have in common", () => {
  const ids = [`resp_${HEX}`, `msg_${HEX}_0`, `rs_${HEX}_12`, `x_${HEX}`, "msg_1", `resp_${HEX}x`];
  assertEquals(ids.map(hexOf), [HEX, HEX, HEX, undefined, undefined, undefined]);
});
