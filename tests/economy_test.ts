import { assert, assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { type Profile, profileNamed, promptCost } from "@tare/planner";
import { applyElisions } from "@tare/prune";
import { measureEconomy } from "../scripts/bench/economy/economy.ts";
import { resend } from "../scripts/bench/economy/fixed_policies.ts";
import { loadData } from "../scripts/bench/economy/load_data.ts";
import { optimum } from "../scripts/bench/economy/optimum.ts";
import { POLICIES } from "../scripts/bench/economy/policies.ts";
import type { Policy } from "../scripts/bench/economy/policy.ts";
import { readRecording, type Recording } from "../scripts/bench/economy/recording.ts";
import { replay } from "../scripts/bench/economy/replay.ts";
import { generateWorkload } from "../scripts/bench/economy/workload.ts";

const countTokens = estimateTokens;

const TOOL: ToolDefinition = { type: "function", function: { name: "read" } };

function line(messages: readonly object[], fields: object = {}): string {
  return JSON.stringify({ id: "s", tools: [TOOL], messages, ...fields });
}

function round(id: string, result: string, args = "{}"): (Message & { readonly ts?: number })[] {
  return [
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: args } }],
    },
    { role: "tool", tool_call_id: id, content: result },
  ];
}

Deno.test("readRecording() refuses what can't be replayed, in one sentence", () => {
  const user = { role: "user", content: "Hi." };
  const cases: [string, string][] = [
    ["{", "JSON"],
    ["{}", "it has no messages"],
    [JSON.stringify({ messages: [user], tools: [] }), "it has no tools"],
    [line([]), "it has no user message"],
    [line(round("1", "x")), "it has no user message"],
    [line([user, { role: "robot", content: "x" }]), "message 1 has the unknown role robot"],
    [line([user, { role: "tool", tool_call_id: "1", content: "x" }]), "message 1 answers no call"],
    [line([user, ...round("1", "x").slice(0, 1), user]), "call 1 has no answer before message 2"],
  ];
  for (const [text, why] of cases) assertThrows(() => readRecording(text), Error, why);
});

Deno.test("readRecording() takes the notes off and finds the calls with their times", () => {
  const [call, result] = round("1", "x");
  const { messages, calls, errors, usage } = readRecording(line([
    { role: "user", content: "Hi.", ts: 5_000, meta: true },
    { ...call, usage: { input: 3, cache_read: 4, cache_write: 5, output: 6 }, ts: 6_000 },
    { ...result, error: true },
    { role: "assistant", content: "Done." },
  ]));
  assertEquals(messages[0], { role: "user", content: "Hi." });
  assertEquals(calls, [{ messages: 1, timeMs: 5_000 }, { messages: 3, timeMs: 25_000 }]);
  assertEquals([...errors], [2]);
  assertEquals(usage.get(1)?.cache_read, 4);
});

Deno.test("loadData() skips bad lines, counts them and says why", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const good = line([{ role: "user", content: "Hi." }, { role: "assistant", content: "Hello." }]);
    await Deno.writeTextFile(`${folder}/a.jsonl`, `${good}\nnonsense\n\n${line([])}\n${good}\n`);
    const warnings: string[] = [];
    const [data] = loadData(folder, { warn: (sentence) => warnings.push(sentence) });
    assertEquals([data?.name, data?.recordings.length, data?.skipped], ["a", 2, 2]);
    assertStringIncludes(warnings[0] ?? "", "Skipped a.jsonl:2: ");
    assertEquals(warnings[1], "Skipped a.jsonl:4: it has no user message");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("replay() prices each call by what the cache serves of it", async () => {
  const profile: Profile = { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 };
  const recording = readRecording(line([
    { role: "user", content: "x".repeat(400) },
    ...round("1", "y".repeat(4_000)),
    { role: "assistant", content: "Done." },
  ]));
  const { cost, promptTokens, cachedTokens, epochs } = await replay(recording, resend(), {
    profile,
    countTokens,
  });
  const first = estimateTokens(JSON.stringify(TOOL)) + 4 + 100;
  const second = first + 4 + 1 + 1 + 4 + 1_000;
  assertEquals([promptTokens, cachedTokens, epochs], [first + second, first, 1]);
  assertEquals(cost, promptCost(profile, { promptTokens: first + second, cachedTokens: first }));
});

Deno.test("replay() counts the words of a call that had occurred and that its view shows nowhere", async () => {
  const recording = readRecording(line([
    { role: "user", content: "Look at firstName and secondName now." },
    ...round("1", "thirdName", '{"q":"firstName unheardOf"}'),
    ...round("2", "x", '{"q":"firstName secondName thirdName unheardOf"}'),
  ]));
  const forgetful: Policy = { view: ({ messages, tools }) => ({ messages: messages.slice(-1), tools }) };
  const options = { profile: profileNamed("none"), countTokens };
  const { references, lostReferences, callsWithLostReference } = await replay(recording, forgetful, options);
  // The first call sees the user's message; the second only its result.
  assertEquals([references, lostReferences, callsWithLostReference], [5, 3, 1]);
  assertEquals((await replay(recording, resend(), options)).lostReferences, 0);
});

/** A session of so many rounds, and its cost when it is rewritten before the calls that `at` names. */
function sized(rounds: number): Recording {
  const tokens = [900, 400, 2_000, 300, 1_200, 700, 1_500, 400, 800, 1_000];
  return readRecording(line([
    { role: "user", content: "Go." },
    ...Array.from({ length: rounds }, (_, at) => round(`${at}`, "z".repeat(4 * (tokens[at % 10] ?? 1))))
      .flat(),
    { role: "assistant", content: "Done." },
  ]));
}

Deno.test("optimum() is the cheapest of all choices of calls, and what replaying them costs", async () => {
  const recording = sized(10);
  for (const name of ["anthropic-5m", "openai", "deepseek", "none"]) {
    for (const windowTokens of [6_000, 1e6]) {
      const profile = { ...profileNamed(name), minTokens: 256, blockTokens: 64 };
      const options = { profile, countTokens, windowTokens, protectTokens: 2_000 };
      const { cost, rewrites, removable } = await optimum(recording, options);
      const costAt = async (times: ReadonlySet<number>) => {
        let call = -1;
        let gone = 0;
        const policy: Policy = {
          view({ messages, tools }) {
            call++;
            if (times.has(call)) gone = removable.filter(({ from }) => from <= call).length;
            return {
              messages: applyElisions(messages, removable.slice(0, gone).map(({ elision }) => elision)),
              tools,
            };
          },
        };
        return (await replay(recording, policy, { profile, countTokens })).cost;
      };
      assertAlmostEquals(await costAt(new Set(rewrites)), cost, 1e-6);
      if (windowTokens < 1e6) continue;
      let cheapest = Infinity;
      for (let choice = 0; choice < 2 ** recording.calls.length; choice++) {
        const times = new Set(recording.calls.keys().filter((call) => choice & (1 << call)));
        cheapest = Math.min(cheapest, await costAt(times));
      }
      assertAlmostEquals(cost, cheapest, 1e-6);
    }
  }
});

Deno.test("measureEconomy() finds the planner near the optimum and never far above resending", async () => {
  const recordings = generateWorkload().slice(0, 4);
  assertEquals(
    recordings.map(({ id, calls }) => [id, calls.length]),
    generateWorkload().slice(0, 4).map(({ id, calls }) => [id, calls.length]),
  );
  for (const name of ["anthropic-5m", "none"]) {
    const results = await measureEconomy({ name: "generated", recordings, skipped: 0 }, {
      profile: profileNamed(name),
      policies: Object.keys(POLICIES),
      countTokens,
    });
    const by = (policy: string) => results.find((result) => result.policy === policy)!;
    assert(by("planner-age").costVsOptimum <= 1.1);
    assert(by("planner").worstVsResend <= 1.05);
    assertEquals(by("resend").costVsResend, 1);
    assertEquals(by("optimum").costVsOptimum, 1);
  }
});
