import { assert, assertEquals } from "@std/assert";
import { ModelError } from "@tare/loop";
import type { Model, Tool } from "@tare/messages";
import { memoryStore } from "@tare/conversation/sqlite";
import { Telemetry } from "@tare/conversation/telemetry";
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

Deno.test("whatever happens in a turn, telemetry changes nothing of it, and all that it begins ends", async () => {
  const { spans } = recordTelemetry();
  const played = async (turns: readonly ScriptTurn[], telemetry?: Telemetry) => {
    const sessions = scriptedSessions({ store: memoryStore(), ...(telemetry && { telemetry }) });
    const session = await makeSession(sessions);
    const player = new Player();
    for (const [at, steps] of turns.entries()) await player.play(session, `Turn ${at}.`, steps);
    return [snapshot(session), player.requests];
  };
  await fc.assert(
    fc.asyncProperty(scriptTurns, async (turns) => {
      const first = spans.length;
      assertEquals(await played(turns, new Telemetry("t")), await played(turns));
      const told = spans.slice(first);
      assertEquals(told.filter(({ ended }) => !ended), []);
      assertEquals(told.filter(({ name }) => name === "invoke_agent tare").length, turns.length);
      for (const { name, parent } of told) {
        // A summary is asked for while a call is prepared.
        assertEquals(parent, name === "invoke_agent tare" ? undefined : "invoke_agent tare");
      }
    }),
    { numRuns: cases(40) },
  );
});

/** Plays a turn with one tool, and gives what was told, each span with its class of error. */
async function told(model: Model, run?: Tool["run"], captureContent = false) {
  const { spans } = recordTelemetry();
  const sessions = scriptedSessions({
    store: memoryStore(),
    telemetry: new Telemetry("t", { captureContent }),
    address: () => "http://127.0.0.1:1",
    model: () => model,
    limits: { toolTimeoutMs: 10, idleTimeoutMs: 60_000 },
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

Deno.test("a tool that goes on after its time is told to have timed out, and one that fails by what it threw", async () => {
  const slow = await told(answer, () => new Promise(() => {}));
  await slow.turn.done;
  assertEquals(slow.lines(), ["invoke_agent tare ", "chat m ", "execute_tool look timeout", "chat m "]);
  const broken = await told(answer, () => {
    throw new Deno.errors.NotFound("secret");
  });
  await broken.turn.done;
  assertEquals(broken.lines(), ["invoke_agent tare ", "chat m ", "execute_tool look NotFound", "chat m "]);
});

Deno.test("a model that goes on after the turn was cancelled is told to have been cancelled", async () => {
  const asked = Promise.withResolvers<void>();
  const { session, turn, lines } = await told(async function* () {
    asked.resolve();
    await new Promise(() => {});
    yield { type: "text_delta", text: "" };
  });
  await asked.promise;
  await session.cancel();
  await turn.done;
  assertEquals(lines(), ["invoke_agent tare cancelled", "chat m cancelled"]);
});

Deno.test("a model that fails is told by its code", async () => {
  const { turn, lines } = await told(async function* () {
    yield { type: "text_delta", text: "" };
    throw new ModelError("rate_limited", "secret");
  });
  await turn.done;
  assertEquals(lines(), ["invoke_agent tare rate_limited", "chat m rate_limited"]);
});

Deno.test("what tools gave is told only if it shall be", async () => {
  for (const captureContent of [false, true]) {
    const { spans, turn } = await told(answer, () => "Seen.", captureContent);
    await turn.done;
    const { attributes } = spans.find(({ name }) => name === "execute_tool look")!;
    assertEquals(attributes["gen_ai.tool.call.result"], captureContent ? '"Seen."' : undefined);
    const [, chat] = spans;
    assertEquals(chat!.attributes["server.port"], 1);
    assert(("gen_ai.output.messages" in chat!.attributes) === captureContent);
  }
});
