import { assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { ModelError } from "@tare/loop";
import { echoCall, post, routeOptions, scriptedModel, serve } from "./fixture_test.ts";
import type { ResponseBody } from "@tare/wire";

const PATH = "/v1/responses";
const BODY = { model: "agent", input: "Hi." };

function harness(replies: Parameters<typeof scriptedModel>[0]) {
  const { model, asked } = scriptedModel(replies);
  const options = routeOptions(model);
  const handler = serve(options);
  return {
    asked,
    options,
    post: (body: object) => post(handler, PATH, { ...BODY, ...body }),
    get: (path: string) => handler(new Request(`http://localhost${PATH}/${path}`)),
  };
}

async function failure(response: Response): Promise<unknown[]> {
  const { error } = await response.json();
  return [response.status, error.param, error.code];
}

Deno.test("createResponseRoute() answers, and getResponseRoute() gives the same later", async () => {
  const { post, get } = harness([echoCall("x"), { content: "Hello." }]);
  const response = await post({ metadata: { a: "b" } });
  const body: ResponseBody = await response.json();
  assertEquals([response.status, body.status, body.created_at, body.completed_at], [200, "completed", 5, 5]);
  assertEquals(body.output.map(({ type }) => type), ["reasoning", "message"]);
  assertEquals(body.usage, {
    input_tokens: 20,
    input_tokens_details: { cached_tokens: 10 },
    output_tokens: 4,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 24,
  });
  const later = await get(body.id);
  assertEquals([later.status, await later.json()], [200, body]);
});

Deno.test("createResponseRoute() follows a response in its session, or from where it ended in a new one", async () => {
  const { post, asked } = harness([{ content: "a" }, { content: "b" }, { content: "c" }, { content: "d" }]);
  const first = await post({});
  const { id } = await first.json();
  const session = first.headers.get("tare-session");
  const follow = async (body: object) => {
    const response = await post({ previous_response_id: id, ...body });
    await response.body?.cancel();
    return [
      response.headers.get("tare-session") === session,
      asked.at(-1)!.messages.map(({ content }) => content),
    ];
  };
  assertEquals(await follow({ input: "2" }), [true, ["Be brief.", "Hi.", "a", "2"]]);
  assertEquals(await follow({ input: "3" }), [false, ["Be brief.", "Hi.", "a", "3"]]);
  assertEquals(await follow({ input: "4", instructions: "Be kind." }), [
    false,
    ["Be brief.\n\nBe kind.", "Hi.", "a", "4"],
  ]);
});

Deno.test("getResponseRoute() gives a response as long as its session is there", async () => {
  const { post, get, options } = harness([{ content: "a" }]);
  const response = await post({});
  const { id } = await response.json();
  await (await get(id)).body?.cancel();
  await (await options.sessions.get(response.headers.get("tare-session")!)).delete();
  assertEquals(await failure(await get(id)), [404, "id", "response_not_found"]);
});

Deno.test("createResponseRoute() recognises a conversation that is sent as a whole", async () => {
  const { post } = harness([{ content: "a" }, { content: "b" }]);
  const first = await post({ store: false });
  const { id, output } = await first.json();
  assertEquals(await failure(await post({ previous_response_id: id })), [
    400,
    "previous_response_id",
    "previous_response_not_found",
  ]);
  const user = { role: "user", content: "Hi." };
  const second = await post({ input: [user, ...output, user] });
  assertEquals([second.status, second.headers.get("tare-session")], [200, first.headers.get("tare-session")]);
});

Deno.test("createResponseRoute() streams named events, and stores the response before the last", async () => {
  const { post, get } = harness([{ content: "Hello." }]);
  const response = await post({ stream: true });
  const events: { event: string | undefined; type: string; id?: string }[] = [];
  for await (const { event, data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    const { type, response } = JSON.parse(data!);
    events.push({ event, type, id: response?.id });
  }
  assertEquals(events.every(({ event, type }) => event === type), true);
  assertEquals([events[0]?.type, events.at(-1)?.type], ["response.created", "response.completed"]);
  assertEquals((await get(events.at(-1)!.id!)).status, 200);
});

Deno.test("createResponseRoute() tells a failure by its status, and in the middle of a stream as an event", async () => {
  const bad = new ModelError("bad_key", "No.");
  const { post, get } = harness([bad, { content: "Well.", ...echoCall("x") }, bad]);
  assertEquals(await failure(await post({ stream: true })), [502, null, "bad_key"]);
  const response = await post({ stream: true });
  const last = (await response.text()).trim().split("\n\n").at(-1)!;
  const event = JSON.parse(/^data: (.*)$/m.exec(last)![1]!);
  assertEquals([event.type, event.response.error], [
    "response.failed",
    { code: "server_error", message: "No." },
  ]);
  assertEquals((await get(event.response.id)).status, 404);
});

Deno.test("createResponseRoute() and getResponseRoute() refuse what the agent can't do", async () => {
  const { post, get } = harness([]);
  assertEquals(await failure(await post({ model: "gpt" })), [404, "model", "model_not_found"]);
  assertEquals(await failure(await post({ input: undefined })), [400, "input", "invalid_request"]);
  assertEquals(await failure(await post({ background: true })), [400, "background", "unsupported_value"]);
  assertEquals(await failure(await post({ previous_response_id: "resp_1" })), [
    400,
    "previous_response_id",
    "previous_response_not_found",
  ]);
  assertEquals(await failure(await get("resp_1")), [404, "id", "response_not_found"]);
  assertEquals(await failure(await get("resp_1?stream=true")), [400, "stream", "unsupported_value"]);
});

Deno.test("createResponseRoute() says that a limit ended a response", async () => {
  const { post } = harness([{ content: "Wait.", ...echoCall("x") }, { content: "a" }]);
  const { status, incomplete_details, max_output_tokens } = await (await post({ max_output_tokens: 2 }))
    .json();
  assertEquals([status, incomplete_details, max_output_tokens], [
    "incomplete",
    { reason: "max_output_tokens" },
    2,
  ]);
});
