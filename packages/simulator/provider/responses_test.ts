import { assertEquals, assertMatch } from "@std/assert";
import { scripted, type SimulatedReply, simulator, toolCall } from "@tare/simulator";

const tokenizer = { encode: (text: string) => Array.from(text, (character) => character.charCodeAt(0)) };

function provider(replies: readonly SimulatedReply[]) {
  const { fetch, requests } = simulator({ model: scripted(replies), tokenizer });
  const ask = (body: object, key = "key") =>
    fetch(
      new Request("http://provider/v1/responses", {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: "m", store: false, include: ["reasoning.encrypted_content"], ...body }),
      }),
    );
  return { ask, requests };
}

const GO = { type: "message", role: "user", content: "Go." };
const THINKS: SimulatedReply = {
  reasoning_content: "Hm.",
  content: "Look.",
  tool_calls: [toolCall("read", { a: 1 }, { id: "a" }), toolCall("read", { a: 2 }, { id: "b" })],
};
const RESULTS = ["a", "b"].map((call_id) => ({ type: "function_call_output", call_id, output: "A." }));

Deno.test("simulator() replies in the Responses format, complete and streamed, with its cache", async () => {
  const { ask, requests } = provider([THINKS, THINKS, { content: "Half", finish_reason: "length" }]);
  const input = [{ ...GO, content: "Go. ".repeat(600) }];
  const whole = await (await ask({ input })).json();
  assertEquals(whole.output.map(({ type }: { type: string }) => type), [
    "reasoning",
    "message",
    "function_call",
    "function_call",
  ]);
  const streamed = await (await ask({ input, stream: true })).text();
  assertMatch(streamed, /^event: response\.created\n.*event: response\.completed\ndata: \{.*\}\n\n$/s);
  assertMatch(streamed, /event: response\.reasoning_summary_text\.delta\n/);
  const cut = await (await ask({ input: [...input, ...whole.output, ...RESULTS] })).json();
  assertEquals([cut.status, cut.incomplete_details.reason], ["incomplete", "max_output_tokens"]);
  assertEquals(requests.map(({ cachedTokens }) => cachedTokens > 2_000), [false, true, true]);
  assertEquals(requests[2]?.messages.map(({ role }) => role), ["user", "assistant", "tool", "tool"]);
  const [{ usage }] = [whole];
  assertEquals(usage.output_tokens_details.reasoning_tokens, 3);
});

Deno.test("simulator() accepts reasoning in Responses only as sealed and with its item", async () => {
  const { ask } = provider([THINKS, { content: "Done." }]);
  const { output: [thought, text, ...calls] } = await (await ask({ input: [GO] })).json();
  const refusal = async (input: readonly object[], more: object = {}, key?: string) => {
    const response = await ask({ input, ...more }, key);
    return [response.status, (await response.json()).error?.message];
  };
  const follower = "was provided without its required following item.";
  assertEquals(await refusal([GO, thought]), [400, `Item '${thought.id}' of type 'reasoning' ${follower}`]);
  assertEquals(await refusal([GO, thought, GO]), [
    400,
    `Item '${thought.id}' of type 'reasoning' ${follower}`,
  ]);
  assertEquals(await refusal([GO, text, ...calls, ...RESULTS]), [
    400,
    `Item '${text.id}' of type 'message' was provided without its required 'reasoning' item: '${thought.id}'.`,
  ]);
  const changed = { ...thought, encrypted_content: `${thought.encrypted_content}A` };
  const unverified = `The encrypted content for item ${thought.id} could not be verified.`;
  const rest = [text, ...calls, ...RESULTS];
  assertEquals(await refusal([GO, changed, ...rest]), [400, unverified]);
  assertEquals(await refusal([GO, thought, ...rest], { model: "other" }), [400, unverified]);
  assertEquals(await refusal([GO, thought, ...rest], {}, "another's"), [400, unverified]);
  const { encrypted_content: _, ...unsealed } = thought;
  assertEquals((await refusal([GO, unsealed, ...rest]))[0], 404);
  assertEquals((await refusal([GO, thought, text, ...calls, RESULTS[0]!]))[0], 400);
  assertEquals(await refusal([GO, thought, ...rest]), [200, undefined]);
});

Deno.test("simulator() accepts thinking in Messages only as signed and complete in a tool loop", async () => {
  const { fetch } = simulator({
    model: scripted([THINKS, { content: "Done." }, { content: "Ended." }]),
    tokenizer,
  });
  const ask = async (messages: readonly object[], more: object = {}) => {
    const response = await fetch(
      new Request("http://provider/v1/messages", {
        method: "POST",
        body: JSON.stringify({ model: "m", max_tokens: 9_000, messages, ...more }),
      }),
    );
    return { status: response.status, body: await response.json() };
  };
  const go = { role: "user", content: "Go." };
  const { body: { content: [thought, ...content] } } = await ask([go]);
  const results = ["a", "b"].map((id) => ({ type: "tool_result", tool_use_id: id, content: "A." }));
  const loop = (
    ...content: readonly object[]
  ) => [go, { role: "assistant", content }, { role: "user", content: results }];
  const refusal = async (...args: Parameters<typeof ask>) => {
    const { status, body } = await ask(...args);
    return [status, body.error?.message];
  };
  assertEquals(await refusal(loop(...content)), [
    400,
    "messages.1.content: `thinking` blocks of the tool loop cannot be modified or left out",
  ]);
  assertEquals(await refusal(loop({ ...thought, thinking: "Hm!" }, ...content)), [
    400,
    "messages.1.content.0: Invalid `signature` in `thinking` block",
  ]);
  const other = content.map((block: { readonly type: string; readonly id?: string }) =>
    block.type === "tool_use" ? { ...block, id: `1${block.id}` } : block
  );
  const answers = ["1a", "1b"].map((id) => ({ type: "tool_result", tool_use_id: id, content: "A." }));
  const thinking = { type: "enabled", budget_tokens: 2_000 };
  assertEquals(
    await refusal([go, { role: "assistant", content: other }, { role: "user", content: answers }], {
      thinking,
    }),
    [400, "messages.1.content.0.type: Expected `thinking`, but found `text`"],
  );
  assertEquals(await refusal(loop(thought, ...content), { thinking }), [200, undefined]);
  assertEquals(await refusal([...loop(...content), { role: "assistant", content: "Done." }, go]), [
    200,
    undefined,
  ]);
});
