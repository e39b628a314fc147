import { assert, assertEquals, assertRejects } from "@std/assert";
import { ModelError } from "@tare/loop";
import type { Model, Tool } from "@tare/messages";
import { memoryStore } from "@tare/session/sqlite";
import { Telemetry } from "@tare/session/telemetry";
import fc, { cases } from "../../../tests/cases.ts";
import { recordTelemetry } from "../../../tests/telemetry/recorder.ts";
import {
  makeSession,
  Player,
  scriptedSessions,
  type ScriptTurn,
  scriptTurns,
  snapshot,
} from "../script_fixture_test.ts";
import { tracedModel } from "./traced_turn.ts";

Deno.test("telemetry: it changes nothing in any turn, and all spans end", async () => {
  const { spans } = recordTelemetry();
  const played = async (turns: readonly ScriptTurn[], telemetry?: Telemetry) => {
    const store = memoryStore();
    const sessions = scriptedSessions({ store, ...(telemetry && { telemetry }) });
    const session = await makeSession(sessions);
    const player = new Player();
    for (const [at, steps] of turns.entries()) await player.play(session, `Turn ${at}.`, steps);
    const steps = await store.readEvents(session.id, { types: ["step_end"] });
    return [snapshot(session), player.requests, steps.map(({ event }) => event.ledger)];
  };
  await fc.assert(
    fc.asyncProperty(scriptTurns, async (turns) => {
      const first = spans.length;
      assertEquals(await played(turns, new Telemetry("t")), await played(turns));
      const recorded = spans.slice(first);
      assertEquals(recorded.filter(({ ended }) => !ended), []);
      assertEquals(recorded.filter(({ name }) => name === "invoke_agent tare").length, turns.length);
      for (const { name, parent } of recorded) {
        // A summary is requested while a call is prepared.
        assertEquals(parent, name === "invoke_agent tare" ? undefined : "invoke_agent tare");
      }
    }),
    { numRuns: cases(40) },
  );
});

async function recorded(model: Model, run?: Tool["run"], captureContent = false) {
  const { spans } = recordTelemetry();
  const sessions = scriptedSessions({
    store: memoryStore(),
    telemetry: new Telemetry("t", { captureContent }),
    address: () => "http://127.0.0.1:1",
    model: () => model,
    turn: { toolTimeoutMs: 10, idleTimeoutMs: 60_000 },
    tools: run ? [{ definition: { type: "function", function: { name: "look" } }, run }] : [],
  });
  const session = await makeSession(sessions);
  const turn = await session.start({ input: "Go." });
  return {
    spans,
    session,
    turn,
    lines: () => spans.map(({ name, attributes }) => `${name} ${attributes["error.type"] ?? ""}`),
  };
}

const answer: Model = async function* ({ messages }) {
  const call = { id: "1", type: "function", function: { name: "look", arguments: "{}" } } as const;
  const calls = messages.some(({ role }) => role === "tool") ? {} : { tool_calls: [call] };
  const message = { role: "assistant", content: "So.", ...calls } as const;
  yield { type: "completed", message, finishReason: "stop" };
};

Deno.test(
  "telemetry: a tool that continues after its time limit has timed out, and a failed one has its error's type",
  async () => {
    const slow = await recorded(answer, () => new Promise(() => {}));
    await slow.turn.done;
    assertEquals(slow.lines(), ["invoke_agent tare ", "chat m ", "execute_tool look timeout", "chat m "]);
    const broken = await recorded(answer, () => {
      throw new Deno.errors.NotFound("secret");
    });
    await broken.turn.done;
    assertEquals(broken.lines(), ["invoke_agent tare ", "chat m ", "execute_tool look NotFound", "chat m "]);
  },
);

Deno.test("telemetry: a model that continues after the turn was cancelled has been cancelled", async () => {
  const requested = Promise.withResolvers<void>();
  const { session, turn, lines } = await recorded(async function* () {
    requested.resolve();
    await new Promise(() => {});
    yield { type: "text_delta", text: "" };
  });
  await requested.promise;
  await session.cancel();
  await turn.done;
  assertEquals(lines(), ["invoke_agent tare cancelled", "chat m cancelled"]);
});

Deno.test("telemetry: a failed model has its error's code", async () => {
  const { turn, lines } = await recorded(async function* () {
    yield { type: "text_delta", text: "" };
    throw new ModelError("rate_limited", "secret");
  });
  await turn.done;
  assertEquals(lines(), ["invoke_agent tare rate_limited", "chat m rate_limited"]);
});

Deno.test("telemetry: results of tools are recorded only if configured", async () => {
  for (const captureContent of [false, true]) {
    const { spans, turn } = await recorded(answer, () => "Seen.", captureContent);
    await turn.done;
    const { attributes } = spans.find(({ name }) => name === "execute_tool look")!;
    assertEquals(attributes["gen_ai.tool.call.result"], captureContent ? '"Seen."' : undefined);
    assertEquals(attributes["error.type"], undefined);
    const [, chat] = spans;
    assertEquals(chat!.attributes["server.port"], 1);
    assert(("gen_ai.output.messages" in chat!.attributes) === captureContent);
  }
});

Deno.test("telemetry: a model call whose reply ends incomplete ends with its turn", async () => {
  const { spans, turn, lines } = await recorded(async function* () {
    yield { type: "text_delta", text: "So" };
  });
  await turn.done;
  assertEquals(lines(), ["invoke_agent tare bad_response", "chat m bad_response"]);
  assertEquals(spans.map(({ ended }) => ended), [true, true]);
  assertEquals(spans[0]!.attributes["tare.turn.end_reason"], "model_error");
  assert("gen_ai.response.time_to_first_chunk" in spans[1]!.attributes);
});

const USAGE = { promptTokens: 70, cachedTokens: 20, outputTokens: 5 };
const counted: Model = async function* () {
  const message = { role: "assistant", content: "So." } as const;
  yield { type: "completed", message, finishReason: "stop", usage: USAGE };
};

Deno.test("telemetry: usage is recorded once for each model call, in a turn and outside", async () => {
  const { count } = recordTelemetry();
  const tokens = () => count("gen_ai.client.token.usage", "gen_ai.token.type");
  const sessions = scriptedSessions({
    store: memoryStore(),
    telemetry: new Telemetry("t"),
    model: () => counted,
  });
  await (await (await makeSession(sessions)).start({ input: "Go." })).done;
  assertEquals(tokens(), { input: 1, output: 1 });

  const { spans, count: again } = recordTelemetry();
  const telemetry = new Telemetry("t");
  const model = tracedModel(counted, { telemetry, provider: "p", model: "m", conversation: "c" });
  const request = { messages: [], tools: [], signal: new AbortController().signal };
  const events = await Array.fromAsync(model(request));
  assertEquals(events.map(({ type }) => type), ["completed"]);
  assertEquals(again("gen_ai.client.token.usage", "gen_ai.token.type"), { input: 1, output: 1 });
  assertEquals(spans.map(({ name, ended }) => [name, ended]), [["chat m", true]]);
  assertEquals(spans[0]!.attributes["gen_ai.usage.input_tokens"], 70);
  assertEquals(spans[0]!.attributes["gen_ai.request.stream"], true);
});

Deno.test("tracedModel() ends the model's own reply when its reader stops", async () => {
  recordTelemetry();
  let hasEnded = false;
  const model = tracedModel(async function* () {
    try {
      yield { type: "text_delta", text: "So" };
      yield { type: "text_delta", text: " it is." };
    } finally {
      hasEnded = true;
    }
  }, { telemetry: new Telemetry("t"), provider: "p", model: "m", conversation: "c" });
  const request = { messages: [], tools: [], signal: new AbortController().signal };
  for await (const _ of model(request)) break;
  assertEquals(hasEnded, true);
});

Deno.test("tracedModel() records a reply that fails, or continues after its request was cancelled", async () => {
  const traced = (model: Model) =>
    tracedModel(model, { telemetry: new Telemetry("t"), provider: "p", model: "m", conversation: "c" });
  const { spans } = recordTelemetry();
  const cancelling = new AbortController();
  const request = { messages: [], tools: [], signal: cancelling.signal };
  const hanging = traced(async function* () {
    await new Promise(() => {});
    yield { type: "text_delta", text: "" };
  });
  void hanging(request)[Symbol.asyncIterator]().next();
  cancelling.abort();
  const failing = traced(async function* () {
    yield { type: "text_delta", text: "" };
    throw new ModelError("rate_limited", "secret");
  });
  const other = { ...request, signal: new AbortController().signal };
  await assertRejects(() => Array.fromAsync(failing(other)), ModelError);
  assertEquals(spans.map(({ ended, attributes }) => [ended, attributes["error.type"]]), [
    [true, "cancelled"],
    [true, "rate_limited"],
  ]);
});

Deno.test("telemetry: only calls of recall are counted", async () => {
  for (const name of ["recall", "look"]) {
    const { count } = recordTelemetry();
    const call = { id: "1", type: "function", function: { name, arguments: '{"find":"x"}' } } as const;
    const sessions = scriptedSessions({
      store: memoryStore(),
      telemetry: new Telemetry("t"),
      model: () =>
        async function* ({ messages }) {
          const calls = messages.some(({ role }) => role === "tool") ? {} : { tool_calls: [call] };
          const message = { role: "assistant", content: "So.", ...calls } as const;
          yield { type: "completed", message, finishReason: "stop" };
        },
      tools: [{ definition: { type: "function", function: { name: "look" } }, run: () => "Seen." }],
    });
    await (await (await makeSession(sessions)).start({ input: "Go." })).done;
    assertEquals(count("tare.recalls"), name === "recall" ? { "": 1 } : {});
  }
});
