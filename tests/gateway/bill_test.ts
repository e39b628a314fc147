import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { GatewayOptions } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import { replay as replayModel, type SimulatedCall } from "@tare/simulator";
import type { Recording } from "@tare/simulator/economy";
import { generateWorkload } from "../workload.ts";
import { startGateway } from "./gateway.ts";
import { costOf, startUpstream } from "./upstream.ts";

interface Bill {
  readonly cost: number;
  readonly requests: readonly SimulatedCall[];
  readonly ledger?: Awaited<ReturnType<Awaited<ReturnType<typeof startGateway>>["ledger"]>>;
}

/** Plays a session as its client did: the whole history with every call. */
async function play(
  { messages, tools, calls }: Recording,
  { profile: name, through, headers }: {
    readonly profile: string;
    readonly through?: Partial<GatewayOptions>;
    readonly headers?: Readonly<Record<string, string>>;
  },
): Promise<Bill> {
  await using upstream = await startUpstream(replayModel(messages.slice(calls[0]?.messages)), {
    profile: profileNamed(name),
    timeOf: (request) => calls[Math.min(request, calls.length - 1)]?.timeMs ?? 0,
  });
  await using gateway = through && await startGateway(upstream, through);
  for (const call of calls) {
    const answer = await fetch(`${(gateway ?? upstream).baseURL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "recorded", messages: messages.slice(0, call.messages), tools }),
    });
    assertEquals(answer.status, 200, await answer.text());
  }
  const ledger = await gateway?.ledger();
  return { cost: costOf(upstream), requests: upstream.requests, ...(ledger && { ledger }) };
}

const recording = generateWorkload()[3]!;

/** Returns a session that reads each path once: a repeated read of evicted content is charged to Tare. */
function readingOnce({ messages, ...rest }: Recording): Recording {
  const reads = new Set<string>();
  return {
    ...rest,
    messages: messages.map((message) =>
      message.role !== "assistant" || !message.tool_calls ? message : {
        ...message,
        tool_calls: message.tool_calls.map((call) => {
          if (call.type !== "function" || call.function.name !== "read_file") return call;
          let { path } = JSON.parse(call.function.arguments);
          while (reads.has(path)) path += "+";
          reads.add(path);
          return { ...call, function: { ...call.function, arguments: JSON.stringify({ path }) } };
        }),
      }
    ),
  };
}

for (const profile of ["openai", "anthropic-5m", "deepseek", "none"]) {
  Deno.test(`gateway: the estimated saving equals the difference of the bills within 5 %, at ${profile}`, async () => {
    const session = readingOnce(recording);
    const direct = await play(session, { profile });
    const { cost, ledger } = await play(session, { profile, through: {} });
    const { costUnits, baselineCostUnits } = ledger!.planned;
    assertAlmostEquals(costUnits, cost, 1e-6 * cost);
    const [claimed, real] = [baselineCostUnits - costUnits, direct.cost - cost];
    assert(
      Math.abs(claimed - real) <= 0.05 * direct.cost,
      `${claimed} claimed, ${real} saved of ${direct.cost}`,
    );
  });

  Deno.test(`gateway: a dry run changes nothing and estimates the saving, at ${profile}`, async () => {
    const direct = await play(recording, { profile });
    const edited = await play(recording, { profile, through: {} });
    for (
      const observed of [
        await play(recording, { profile, through: { holdout: 1 } }),
        await play(recording, { profile, through: {}, headers: { "x-tare": "dry-run" } }),
      ]
    ) {
      assertEquals(observed.requests, direct.requests);
      const { sessions, costUnits, baselineCostUnits, ...rest } = observed.ledger!.holdout;
      assertEquals([sessions, baselineCostUnits], [1, costUnits]);
      assertAlmostEquals(costUnits, direct.cost, 1e-6 * direct.cost);
      // The recorded model recalls nothing.
      const projected = rest.projectedCostUnits - rest.refetchCostUnits;
      assert(Math.abs(projected - edited.cost) <= 0.02 * edited.cost, `${projected} for ${edited.cost}`);
      assert(rest.refetchCostUnits > 0);
    }
  });
}

Deno.test("gateway: short conversations without evictions have saved nothing, whatever they share", async () => {
  const system = { role: "system", content: "You are careful. ".repeat(1_000) };
  for (const profile of ["openai", "anthropic-5m", "deepseek", "none"]) {
    await using upstream = await startUpstream(() => ({ content: "Hello." }), {
      profile: profileNamed(profile),
    });
    await using gateway = await startGateway(upstream);
    for (const name of ["Ada", "Grace", "Mary"]) {
      const messages: object[] = [system, { role: "user", content: `My name is ${name}.` }];
      for (let call = 0; call < 2; call++) {
        const answer = await fetch(`${gateway.baseURL}/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model: "m", messages }),
        });
        messages.push((await answer.json()).choices[0].message, { role: "user", content: "Go on." });
      }
    }
    const { planned } = await gateway.ledger();
    assertEquals([planned.sessions, planned.calls], [3, 6]);
    assertEquals([planned.baselineCostUnits, planned.resendCostUnits], [
      planned.costUnits,
      planned.costUnits,
    ]);
    assertAlmostEquals(planned.costUnits, costOf(upstream), 1e-6);
  }
});
