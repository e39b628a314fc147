import { assert, assertEquals, assertMatch } from "@std/assert";
import { gateway } from "@tare/gateway";
import { OPTIONS, post } from "./fixture_test.ts";
import {
  functionCall,
  type ResponsesRequest,
  responsesUpstream,
  textItems,
} from "./responses_fixture_test.ts";

const READ = { type: "function", name: "read", parameters: { type: "object", properties: {} } };
const USER = { role: "user", content: "Go." };

function gatewayTo({ fetch }: ReturnType<typeof responsesUpstream>) {
  const { fetch: ask } = gateway({ ...OPTIONS, fetch });
  return async (body: object) =>
    (await ask(post({ model: "m", ...body }, {}, "/responses"))) ?? new Response();
}

const shape = ({ input }: ResponsesRequest) =>
  input.map(({ type, role, call_id, id }) => [type ?? role, call_id ?? id].filter(Boolean).join(" "));

Deno.test("responses: recalls are answered and retained at their places", async () => {
  const upstream = responsesUpstream([
    [{ type: "reasoning", id: "rs_1", summary: [] }, functionCall("recall", { ref: "none" }, "r1")],
    [
      { type: "reasoning", id: "rs_2", summary: [] },
      functionCall("read", {}, "c1"),
      functionCall("recall", {}, "r2"),
    ],
    [textItems("Done.")],
  ]);
  const ask = gatewayTo(upstream);
  const first = await (await ask({ input: "Go.", tools: [READ] })).json();
  assertEquals(first.output.map(({ id }: { id: string }) => id), ["rs_1", "rs_2", "fc_c1"]);
  assertEquals(upstream.requests[0]?.tools?.at(-1), {
    ...upstream.requests[0]?.tools?.at(-1),
    name: "recall",
    strict: false,
  });
  const input = [USER, ...first.output, { type: "function_call_output", call_id: "c1", output: "A." }];
  const second = await (await ask({ input: ["Go.", ...input.slice(1)], tools: [READ] })).json();
  assertEquals(second.output.length, 1);
  const expected = [
    "reasoning rs_1",
    "function_call r1",
    "function_call_output r1",
    "reasoning rs_2",
    "function_call r2",
    "function_call_output r2",
    "function_call c1",
    "function_call_output c1",
  ];
  assertEquals(
    shape({ input: upstream.requests[2]!.input.filter((item) => typeof item === "object") }).slice(-8),
    expected,
  );
});

Deno.test("responses: a hidden streamed recall leaves ids, indexes and sequence numbers continuous", async () => {
  const upstream = responsesUpstream([
    [{ type: "reasoning", id: "rs_1", summary: [] }, functionCall("recall", { ref: "none" }, "r1")],
    [textItems("Done.")],
  ]);
  const text = await (await gatewayTo(upstream)({ input: [USER], tools: [READ], stream: true })).text();
  const events = text.trim().split("\n\n").map((event) => JSON.parse(/^data: (.*)$/m.exec(event)![1]!));
  assertEquals(
    events.map(({ type, output_index }) => [type, output_index].filter((x) => x !== undefined).join(" ")),
    [
      "response.created",
      "response.output_item.added 0",
      "response.output_item.done 0",
      "response.output_item.added 1",
      "response.output_item.done 1",
      "response.completed",
    ],
  );
  assertEquals(events.map(({ sequence_number }) => sequence_number), [0, 1, 2, 3, 4, 5]);
  const { response } = events.at(-1);
  assertEquals([response.id, response.output.length, text.includes("recall")], ["resp_1", 2, false]);
});

Deno.test("responses: an open recall of a stored response is answered under the upstream's id", async () => {
  const upstream = responsesUpstream([
    [functionCall("recall", { ref: "none" }, "r1")],
    [functionCall("recall", { ref: "none" }, "r2"), functionCall("read", {}, "c1")],
    [textItems("Done.")],
  ]);
  const ask = gatewayTo(upstream);
  await (await ask({ input: [USER], tools: [READ], stream: true })).text();
  const output = { type: "function_call_output", call_id: "c1", output: "A." };
  await (await ask({ input: [output], tools: [READ], previous_response_id: "resp_1" })).text();
  const last = upstream.requests[2];
  assert(last);
  assertEquals([last.previous_response_id, shape(last)], ["resp_2", [
    "function_call_output r2",
    "function_call_output c1",
  ]]);
});

Deno.test("responses: a conversation stored by the upstream gets each item once, and no recall tool", async () => {
  const stored: object[] = [];
  const reply = (request: ResponsesRequest) => {
    const names = request.tools?.map(({ name }) => name) ?? [];
    const isAnswered = request.input.some(({ type, call_id }) =>
      type === "function_call_output" && String(call_id).startsWith("r")
    );
    const output = names.includes("recall") && !isAnswered
      ? functionCall("recall", { ref: "none" }, `r${stored.length}`)
      : textItems("Done.", `msg_${stored.length}`);
    stored.push(...request.input, output);
    return [output];
  };
  const ask = gatewayTo(responsesUpstream(Array(4).fill(reply)));
  const input = (at: number) => [{ role: "user", content: `Question ${at}.` }];
  for (const [at, conversation] of ["conv_1", { id: "conv_1" }].entries()) {
    const answered = await ask({ input: input(at), tools: [READ], conversation, stream: at > 0 });
    assertMatch(await answered.text(), /Done\./);
  }
  assertEquals(stored, [...input(0), textItems("Done.", "msg_0"), ...input(1), textItems("Done.", "msg_2")]);
});

Deno.test("responses: only outputs of function calls are edited", async () => {
  const result = Array.from({ length: 20_000 }, (_, at) => `${at % 97}`).join(" ");
  const upstream = responsesUpstream([]);
  const ask = gatewayTo(upstream);
  const input: object[] = [USER];
  for (let at = 0; at < 6; at++) {
    input.push({ type: "reasoning", id: `rs_${at}`, summary: [], encrypted_content: "secret" });
    input.push({ ...functionCall("read", { at }, `c${at}`), extra: 1 });
    input.push({ type: "function_call_output", call_id: `c${at}`, output: result, extra: 2 });
    await (await ask({ input, tools: [READ], instructions: "Be brief." })).text();
  }
  const sent = upstream.requests.at(-1)!.input;
  assertEquals(sent.length, input.length);
  const edited = sent.filter((item, at) => JSON.stringify(item) !== JSON.stringify(input[at]));
  assert(edited.length > 0);
  for (const { type, output, extra } of edited) {
    assertEquals([type, extra], ["function_call_output", 2]);
    assertMatch(
      String(output),
      /^\[elided: (middle of )?read result, \d+ bytes; recall with ref [0-9a-f]{16}\]$/m,
    );
  }
});
