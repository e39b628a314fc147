import { assertEquals } from "@std/assert";
import { ModelError, run, type TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import { openaiModel } from "@tare/loop/openai";
import { countRequestTokens, estimateTokens, type Model, type ModelEvent, type Usage } from "@tare/messages";
import fc from "../../tests/cases.ts";
import { call, callTools, collect, say, tool, USAGE } from "./fixture_test.ts";

const costOf = (usage: Usage) => ({ costUnits: usage.promptTokens, usd: usage.outputTokens });

type Ending = "complete" | "broken" | "refused" | "silent";

async function play(requests: readonly { readonly deltas: number; readonly ending: Ending }[]) {
  const controller = new AbortController();
  const script = requests.values();
  let received: ModelEvent[] = [];
  const expected: number[] = [];
  const model: Model = async function* (request) {
    for (;;) {
      const { value: next } = script.next();
      const { deltas, ending } = next ?? { deltas: 0, ending: "silent" };
      request.confirm?.();
      if (ending === "refused") {
        request.refused?.("busy (429)");
        continue;
      }
      received = [];
      for (let at = 0; at < deltas; at++) {
        const event = { type: "text_delta", text: `word ${at} ` } as const;
        received.push(event);
        yield event;
      }
      if (ending === "complete") {
        yield* expected.length % 2 === 0 ? say("Done.") : callTools(call("1", "echo"));
        return;
      }
      if (ending === "broken" && deltas > 0) {
        expected.push(deltas);
        request.restarted?.("It broke off.");
      }
      if (ending === "silent") {
        expected.push(deltas);
        controller.abort();
        throw request.signal.reason;
      }
    }
  };
  const { events, result } = await collect(run({
    model,
    tools: [tool("echo", () => "echo")],
    history: [],
    input: "Go",
    signal: controller.signal,
    costs: { costOf },
  }));
  return { events, result, expected };
}

const REQUEST = fc.record({
  deltas: fc.nat(4),
  ending: fc.constantFrom<Ending>("complete", "broken", "refused", "silent"),
});

Deno.test("run() records each request that was sent and not refused, whatever its end", async () => {
  await fc.assert(fc.asyncProperty(fc.array(REQUEST, { maxLength: 6 }), async (requests) => {
    const { events, result, expected } = await play(requests);
    const unfinished = events.filter((event) => event.type === "reply_unfinished");
    assertEquals(
      unfinished.map(({ usage: { outputTokens } }) => outputTokens),
      expected.map((deltas) =>
        estimateTokens(Array.from({ length: deltas }, (_, at) => `word ${at} `).join(""))
      ),
    );
    for (const { usage, cost } of unfinished) {
      assertEquals([usage.estimated, usage.promptTokens > 0, cost], [true, true, costOf(usage)]);
    }
    const recorded = events.flatMap((event) =>
      event.type === "reply_unfinished" || event.type === "step_end" ? [event] : []
    );
    const sum = recorded.reduce((sum: TurnLedger, { usage, cost }) => {
      const { promptTokens, cachedTokens, outputTokens, estimated = false } = usage;
      const one = { calls: 1, promptTokens, cachedTokens, outputTokens, estimated, saved: {}, ...cost };
      return addLedgers(sum, one);
    }, EMPTY_LEDGER);
    assertEquals(result.ledger, sum);
  }));
});

Deno.test("run() records no requests that a provider refused or never received", async () => {
  for (const code of ["bad_key", "rate_limited", "unreachable", "prompt_too_long"] as const) {
    const model: Model = async function* ({ confirm, refused }) {
      confirm?.();
      if (code !== "unreachable") refused?.("no");
      yield await Promise.reject<ModelEvent>(new ModelError(code, "No."));
    };
    const { result } = await collect(run({ model, history: [], input: "Go" }));
    assertEquals(result.ledger, EMPTY_LEDGER, code);
  }
});

Deno.test("run() counts tokens expected from the cache as cached", async () => {
  const model: Model = async function* () {
    yield { type: "text_delta", text: "Well" };
    throw new ModelError("provider_error", "Gone.");
  };
  const messages = [{ role: "user", content: "A question of some length." }] as const;
  for (const cachedTokens of [0, 3, 1e6]) {
    const { result } = await collect(run({
      model,
      history: messages,
      context: () => ({ messages, tools: [], cachedTokens }),
    }));
    const promptTokens = countRequestTokens({ messages, tools: [] }, estimateTokens);
    assertEquals(result.ledger, {
      ...EMPTY_LEDGER,
      ...{ calls: 1, promptTokens, cachedTokens: Math.min(promptTokens, cachedTokens) },
      ...{ outputTokens: 1, estimated: true },
    });
  }
});

Deno.test("run() records each attempt of a real model whose streams fail", async () => {
  const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
  const whole = JSON.stringify({
    choices: [{ index: 0, message: { role: "assistant", content: "Done." }, finish_reason: "stop" }],
    usage: { prompt_tokens: USAGE.promptTokens, completion_tokens: USAGE.outputTokens },
  });
  const answers: (() => Response)[] = [
    // Failures before any visible delta, in a call and in a text.
    () => new Response("data: {}\n\n", { headers: { "content-type": "text/event-stream" } }),
    () =>
      new Response(
        chunk({ tool_calls: [{ index: 0, id: "1", function: { name: "echo", arguments: '{"a":"b' } }] }),
        { headers: { "content-type": "text/event-stream" } },
      ),
    () => new Response(whole, { headers: { "content-type": "application/json" } }),
  ];
  const model = openaiModel({
    model: "m",
    baseURL: "http://127.0.0.1:1/v1",
    fetch: () => Promise.resolve(answers.shift()!()),
  });
  const { events, result } = await collect(run({ model, history: [], input: "Go" }));
  const outputs = events.flatMap((event) =>
    event.type === "reply_unfinished" ? [event.usage.outputTokens] : []
  );
  assertEquals([result.reason, outputs.length, outputs[0], outputs[1]! > 0], ["completed", 2, 0, true]);
  assertEquals(result.ledger.calls, 3);
});
