import fc, { cases } from "../../../tests/cases.ts";
import { assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { ModelError } from "@tare/loop";
import { echoCall, post, routeOptions, scriptedModel, serve } from "./fixture_test.ts";
import type { ResponseBody } from "@tare/wire/internal";

const PATH = "/v1/responses";
const BODY = { model: "agent", input: "Hi." };

function harness(replies: Parameters<typeof scriptedModel>[0]) {
  const { model, requests } = scriptedModel(replies);
  const options = routeOptions(model);
  const handler = serve(options);
  return {
    requests,
    options,
    post: (body: object) => post(handler, PATH, { ...BODY, ...body }),
    get: (path: string) => handler(new Request(`http://localhost${PATH}/${path}`)),
    delete: (path: string) => handler(new Request(`http://localhost${PATH}/${path}`, { method: "DELETE" })),
  };
}

async function failure(response: Response): Promise<unknown[]> {
  const { error } = await response.json();
  return [response.status, error.param, error.code];
}

Deno.test("createResponseRoute() answers, and storedResponseRoutes() return the same later", async () => {
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

Deno.test("createResponseRoute() continues a response in its session, or from its end in a new one", async () => {
  const { post, requests } = harness([{ content: "a" }, { content: "b" }, { content: "c" }, {
    content: "d",
  }]);
  const first = await post({});
  const { id } = await first.json();
  const session = first.headers.get("tare-session");
  const follow = async (body: object) => {
    const response = await post({ previous_response_id: id, ...body });
    await response.body?.cancel();
    return [
      response.headers.get("tare-session") === session,
      requests.at(-1)!.messages.map(({ content }) => content),
    ];
  };
  assertEquals(await follow({ input: "2" }), [true, ["Be brief.", "Hi.", "a", "2"]]);
  assertEquals(await follow({ input: "3" }), [false, ["Be brief.", "Hi.", "a", "3"]]);
  assertEquals(await follow({ input: "4", instructions: "Be kind." }), [
    false,
    ["Be brief.\n\nBe kind.", "Hi.", "a", "4"],
  ]);
});

Deno.test("storedResponseRoutes() return a response until its session is deleted", async () => {
  const { post, get, options } = harness([{ content: "a" }]);
  const response = await post({});
  const { id } = await response.json();
  await (await get(id)).body?.cancel();
  await options.sessions.delete({ id: response.headers.get("tare-session")! });
  assertEquals(await failure(await get(id)), [404, "id", "response_not_found"]);
});

Deno.test("createResponseRoute() recognizes a conversation that is sent as a whole", async () => {
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

Deno.test("createResponseRoute() streams named events and stores the response before the last", async () => {
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

Deno.test("createResponseRoute() reports a failure by its status, and within a stream as an event", async () => {
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

Deno.test("createResponseRoute() and storedResponseRoutes() refuse unsupported requests", async () => {
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
  // Only of the agent's responses.
  assertEquals(await failure(await get("resp_1?stream=true")), [404, "id", "response_not_found"]);
});

Deno.test("createResponseRoute() reports that a limit ended a response", async () => {
  const { post, get } = harness([{ content: "Wait.", ...echoCall("x") }, { content: "a" }]);
  const made = await (await post({ max_output_tokens: 2 })).json();
  const { id, status, incomplete_details, max_output_tokens } = made;
  assertEquals(await failure(await get(`${id}?stream=true`)), [400, "stream", "unsupported_value"]);
  assertEquals([status, incomplete_details, max_output_tokens], [
    "incomplete",
    { reason: "max_output_tokens" },
    2,
  ]);
});

const PICK = { type: "function", name: "pick", parameters: { type: "object" }, strict: false };
const picked = { id: "p", type: "function", function: { name: "pick", arguments: "{}" } } as const;

Deno.test("createResponseRoute() returns the client's calls and continues with their results", async () => {
  const { post, requests } = harness([
    { content: "Pick.", tool_calls: [picked] },
    { content: "Blue." },
    { tool_calls: [picked] },
  ]);
  const tools = [PICK];
  const first = await post({ tools, tool_choice: "auto", temperature: 0.5 });
  const body: ResponseBody = await first.json();
  assertEquals([body.status, body.tools, body.temperature, body.output.at(-1)], ["completed", tools, 0.5, {
    id: `fc_${body.id.slice(5)}_1`,
    type: "function_call",
    status: "completed",
    call_id: "p",
    name: "pick",
    arguments: "{}",
  }]);
  const { name, parameters, strict } = PICK;
  assertEquals(requests[0]?.tools.at(-1), { type: "function", function: { name, parameters, strict } });
  const session = first.headers.get("tare-session");
  assertEquals(await failure(await post({ previous_response_id: body.id })), [
    400,
    "input",
    "invalid_request",
  ]);
  const input = [{ type: "function_call_output", call_id: "p", output: "blue" }];
  const second = await post({ input, tools, previous_response_id: body.id });
  assertEquals([second.status, second.headers.get("tare-session")], [200, session]);
  assertEquals(requests[1]?.messages.map(({ content }) => content), ["Be brief.", "Hi.", "Pick.", "blue"]);
  await second.body?.cancel();

  const events: unknown[] = [];
  const response = await post({ tools, stream: true });
  for await (const { data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    const { type, delta, name, arguments: text } = JSON.parse(data!);
    events.push([type, delta, name, text].filter((part) => part !== undefined));
  }
  assertEquals(events, [
    ["response.created"],
    ["response.in_progress"],
    ["response.output_item.added"],
    ["response.function_call_arguments.delta", "{}"],
    ["response.function_call_arguments.done", "pick", "{}"],
    ["response.output_item.done"],
    ["response.completed"],
  ]);
});

Deno.test("createResponseRoute() recognizes a conversation with calls that is sent as a whole", async () => {
  const { post } = harness([{ content: "Pick.", tool_calls: [picked] }, { content: "Blue." }]);
  const first = await post({ store: false, tools: [PICK] });
  const { output } = await first.json();
  const result = {
    type: "function_call_output",
    call_id: "p",
    output: [{ type: "input_text", text: "blue" }],
  };
  const second = await post({ input: [{ role: "user", content: "Hi." }, ...output, result], tools: [PICK] });
  assertEquals([second.status, second.headers.get("tare-session")], [200, first.headers.get("tare-session")]);
});

Deno.test("createResponseRoute() forwards settings to the model and names refused ones as the client does", async () => {
  const refusal = (param: string) => new ModelError("bad_request", "No.", { param });
  const { post, requests } = harness([{ content: "a" }, refusal("verbosity"), refusal("top_p")]);
  const body = {
    temperature: 1,
    top_p: 0.5,
    reasoning: { effort: "low", summary: "auto" },
    text: { verbosity: "high" },
    parallel_tool_calls: false,
    tools: [PICK],
    tool_choice: { type: "function", name: "pick" },
  };
  await (await post(body)).body?.cancel();
  assertEquals(requests[0]?.settings, {
    temperature: 1,
    top_p: 0.5,
    parallel_tool_calls: false,
    reasoning_effort: "low",
    verbosity: "high",
    tool_choice: { type: "function", function: { name: "pick" } },
  });
  assertEquals(await failure(await post(body)), [400, "text.verbosity", "unsupported_value"]);
  assertEquals(await failure(await post({ ...body, stream: true })), [400, "top_p", "unsupported_value"]);
});

Deno.test("storedResponseRoutes() delete only the response", async () => {
  const { post, get, delete: remove, options } = harness([{ content: "a" }]);
  const response = await post({});
  const { id } = await response.json();
  assertEquals(await (await remove(id)).json(), { id, object: "response", deleted: true });
  const gone = [404, "id", "response_not_found"];
  for (const answer of [await remove(id), await get(id), await get(`${id}/input_items`)]) {
    assertEquals(await failure(answer), gone);
  }
  assertEquals(await failure(await post({ previous_response_id: id })), [
    400,
    "previous_response_id",
    "previous_response_not_found",
  ]);
  assertEquals((await options.sessions.get(response.headers.get("tare-session")!)).totals.turns, 1);
});

Deno.test("storedResponseRoutes() list a request's input in pages", async () => {
  const { post, get } = harness([{ content: "a" }, { content: "b" }]);
  const { id } = await (await post({})).json();
  const hex = id.slice(5);
  const only = {
    id: `in_${hex}_0`,
    type: "message",
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text: "Hi." }],
  };
  assertEquals(await (await get(`${id}/input_items`)).json(), {
    object: "list",
    data: [only],
    first_id: only.id,
    last_id: only.id,
    has_more: false,
  });
  const input = ["1", "2", "3"].map((content) => ({ role: content === "2" ? "assistant" : "user", content }));
  const { id: long } = await (await post({ input })).json();
  const texts = async (query: string) => {
    const { data, has_more, last_id } = await (await get(`${long}/input_items?${query}`)).json();
    return [
      data.map((item: { content: { text: string }[] }) => item.content[0]?.text),
      has_more,
      last_id.at(-1),
    ];
  };
  assertEquals(await texts("limit=2"), [["3", "2"], true, "1"]);
  assertEquals(await texts(`limit=2&after=in_${long.slice(5)}_1`), [["1"], false, "0"]);
  assertEquals(await texts("order=asc"), [["1", "2", "3"], false, "2"]);
  assertEquals(await failure(await get(`${long}/input_items?limit=0`)), [400, "limit", "invalid_request"]);
  assertEquals(await failure(await get(`${long}/input_items?order=up`)), [400, "order", "invalid_request"]);
  assertEquals(await failure(await get(`${long}/input_items?after=x`)), [404, "after", "item_not_found"]);
});

Deno.test("storedResponseRoutes() list every item once in pages, whatever ids the client sent", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.option(fc.constantFrom("a", "b", "made"), { nil: undefined }), {
        minLength: 1,
        maxLength: 8,
      }),
      fc.integer({ min: 1, max: 4 }),
      async (ids, limit) => {
        const { post, get } = harness([{ content: "a" }]);
        const input = ids.map((id, at) => ({
          role: "user",
          content: `${at}`,
          ...(id !== undefined && { id }),
        }));
        const { id: response } = await (await post({ input })).json();
        for (const order of ["asc", "desc"]) {
          const seen: { id: string; content: { text: string }[] }[] = [];
          for (let after = "", isMore = true; isMore;) {
            const page = await (await get(`${response}/input_items?order=${order}&limit=${limit}${after}`))
              .json();
            seen.push(...page.data);
            after = `&after=${page.last_id}`;
            isMore = page.has_more && seen.length <= ids.length;
          }
          const texts = seen.map(({ content }) => content[0]?.text);
          assertEquals(order === "asc" ? texts : texts.reverse(), ids.map((_, at) => `${at}`));
          assertEquals(new Set(seen.map(({ id }) => id)).size, ids.length);
        }
      },
    ),
    { numRuns: cases(20) },
  );
});
