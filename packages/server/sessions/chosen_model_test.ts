import { assertEquals } from "@std/assert";
import type { Model, ModelRequest, ModelSettings } from "@tare/messages";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import {
  agent,
  call,
  error,
  events,
  newSession,
  refused,
  request,
  steppedModel,
  turn,
} from "../fixture_test.ts";

const EFFORTS: Readonly<Record<string, readonly string[]>> = {
  wise: ["low", "high", "max"],
  quick: ["low"],
  plain: [],
};

function noting(store: Store = memoryStore(), options: Partial<Parameters<typeof agent>[1]> = {}) {
  const requests: [model: string, settings: ModelSettings | undefined][] = [];
  const model = (name: string): Model =>
    async function* ({ settings }: ModelRequest) {
      requests.push([name, settings]);
      yield {
        type: "completed",
        message: { role: "assistant", content: "Yes." },
        finishReason: "stop",
        usage: { promptTokens: 10, cachedTokens: 0, outputTokens: 2 },
      };
    };
  const efforts = (name: string) => EFFORTS[name];
  return {
    requests,
    handler: agent(model("none"), { model, efforts, defaultModel: "wise", store, ...options }),
  };
}

Deno.test(
  "effort: a session's effort is requested, a turn overrides it, and the server's is the default of models that support it",
  async () => {
    const { requests, handler } = noting(memoryStore(), { effort: "high" });
    const usual = await newSession(handler);
    await turn(handler, usual, "Go.");
    await events(await handler.fetch(request("POST", `${usual}/turns`, { input: "Go.", effort: "max" })));
    await turn(handler, usual, "Go.");
    await turn(handler, await newSession(handler, { effort: "low" }), "Go.");
    await turn(handler, await newSession(handler, { model: "quick" }), "Go.");
    await turn(handler, await newSession(handler, { model: "unknown" }), "Go.");
    const queued = await call(handler, "POST", `${usual}/turns`, {
      input: "Go.",
      effort: "low",
      background: true,
    });
    assertEquals(queued.status, 202);
    await events(await handler.fetch(request("GET", `${usual}/events`)));
    const effort = (reasoning_effort: string) => ({ reasoning_effort });
    assertEquals(requests, [
      ["wise", effort("high")],
      ["wise", effort("max")],
      ["wise", effort("high")],
      ["wise", effort("low")],
      ["quick", undefined],
      ["unknown", effort("high")],
      ["wise", effort("low")],
    ]);
    await handler.close();
  },
);

Deno.test("effort: one that the model doesn't support is refused with the supported ones", async () => {
  const { handler } = noting();
  const session = await newSession(handler);
  const refusal = (effort: string, model: string, has: string) =>
    error(400, "invalid_request", `Cannot use effort "${effort}": model "${model}" ${has}.`);
  assertEquals(
    await refused(handler, "POST", "/tare/v1/sessions", { model: "quick", effort: "max" }),
    refusal("max", "quick", "supports the efforts low"),
  );
  assertEquals(
    await refused(handler, "POST", "/tare/v1/sessions", { model: "plain", effort: "low" }),
    refusal("low", "plain", "has no reasoning effort"),
  );
  assertEquals(
    await refused(handler, "POST", `${session}/turns`, { input: "Go.", effort: "medium" }),
    refusal("medium", "wise", "supports the efforts low, high, max"),
  );
  assertEquals(
    await refused(handler, "POST", `${session}/turns`, { input: "Go.", effort: "medium", background: true }),
    refusal("medium", "wise", "supports the efforts low, high, max"),
  );
  assertEquals(
    await refused(handler, "POST", `${session}/model`, { model: "quick", effort: "max" }),
    refusal("max", "quick", "supports the efforts low"),
  );
  const steered = await refused(handler, "POST", `${session}/turns`, {
    input: "Go.",
    steer: true,
    effort: "low",
  });
  assertEquals(steered.status, 400);
  await handler.close();
});

Deno.test("model and effort: chosen between turns, and retained after a restart, in lists and in forks", async () => {
  const store = memoryStore();
  const before = noting(store);
  const session = await newSession(before.handler, { effort: "low" });
  const chosen = async (body: object) => {
    const { session: { model, effort }, efforts } =
      (await call(before.handler, "POST", `${session}/model`, body)).body as {
        session: { model: string; effort?: string };
        efforts?: string[];
      };
    return [model, effort, efforts];
  };
  await turn(before.handler, session, "Go.");
  assertEquals(await chosen({}), ["wise", "low", ["low", "high", "max"]]);
  assertEquals(await chosen({ model: "quick" }), ["quick", "low", ["low"]]);
  assertEquals(await chosen({ effort: null }), ["quick", undefined, ["low"]]);
  assertEquals(await chosen({ model: "wise", effort: "max" }), ["wise", "max", ["low", "high", "max"]]);
  assertEquals(await chosen({ model: "unknown" }), ["unknown", undefined, undefined]);
  assertEquals(await chosen({ model: "quick", effort: "low" }), ["quick", "low", ["low"]]);
  await turn(before.handler, session, "Go on.");
  await before.handler.close();

  const after = noting(store);
  const listed = await call(after.handler, "GET", "/tare/v1/sessions");
  const [{ model, effort }] = (listed.body as { sessions: [{ model: string; effort?: string }] }).sessions;
  assertEquals([model, effort], ["quick", "low"]);
  await turn(after.handler, session, "And now?");
  assertEquals([before.requests.at(-1), after.requests], [["quick", { reasoning_effort: "low" }], [
    ["quick", { reasoning_effort: "low" }],
  ]]);
  await after.handler.close();
});

Deno.test("effort: returns with a model that supports it, after a restart and in forks, until another is chosen", async () => {
  const store = memoryStore();
  const before = noting(store);
  const chosenBy = ({ handler }: typeof before, session: string) => async (body: object) => {
    const { body: answer } = await call(handler, "POST", `${session}/model`, body);
    const { session: { model, effort } } = answer as { session: { model: string; effort?: string } };
    return [model, effort];
  };
  const session = await newSession(before.handler, { effort: "max" });
  const chosen = chosenBy(before, session);
  for (const model of ["plain", "unknown", "unknown", "quick"]) {
    assertEquals(await chosen({ model }), [model, undefined]);
  }
  await turn(before.handler, session, "Go.");
  const { body: copy } = await call(before.handler, "POST", `${session}/fork`, {});
  const { session: { id } } = copy as { session: { id: string } };
  assertEquals(await chosenBy(before, `/tare/v1/sessions/${id}`)({ model: "wise" }), ["wise", "max"]);
  await before.handler.close();

  const after = noting(store);
  const again = chosenBy(after, session);
  assertEquals(await again({ model: "wise" }), ["wise", "max"]);
  await turn(after.handler, session, "Go on.");
  assertEquals([...before.requests, ...after.requests], [["quick", undefined], ["wise", {
    reasoning_effort: "max",
  }]]);
  // The choice for the other model applies from then on, including its own default effort.
  assertEquals(await again({ model: "quick", effort: "low" }), ["quick", "low"]);
  assertEquals(await again({ model: "wise" }), ["wise", "low"]);
  assertEquals(await again({ model: "plain", effort: null }), ["plain", undefined]);
  assertEquals(await again({ model: "wise" }), ["wise", undefined]);
  await after.handler.close();
});

Deno.test("model: can't be chosen while a turn runs", async () => {
  const stepped = steppedModel();
  const handler = agent(stepped.model);
  const session = await newSession(handler);
  const running = turn(handler, session, "Go.");
  await stepped.requested();
  const { status, body } = await refused(handler, "POST", `${session}/model`, { model: "other" });
  assertEquals([status, (body as { error: { code: string } }).error.code], [409, "turn_running"]);
  await stepped.reply("Done.");
  await running;
  await handler.close();
});

Deno.test("effort: a client of the agent as a model receives the name of the unsupported parameter", async () => {
  const { handler } = noting();
  const refusal = async (path: string, body: object) => {
    const { status, body: answer } = await refused(handler, "POST", path, { model: "agent", ...body });
    return [status, (answer as { error: { param: string } }).error.param];
  };
  const messages = [{ role: "user", content: "Go." }];
  const chat = { messages, reasoning_effort: "medium" };
  assertEquals(await refusal("/v1/chat/completions", chat), [400, "reasoning_effort"]);
  const response = { input: "Go.", reasoning: { effort: "medium" } };
  assertEquals(await refusal("/v1/responses", response), [400, "reasoning.effort"]);
  await handler.close();
});
