import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { SUMMARIZE } from "./agents_fixture_test.ts";
import { profileNamed } from "@tare/planner";
import { call, completion, gatewayed, post, READ, UPSTREAM } from "./fixture_test.ts";

const RESULT = "A line of a file that was read. ".repeat(250);

const SUMMARY = "Seventeen files were read, and nothing is amiss in any of them; five are left.";

/** Returns the prompts, in tokens, before which a client of this name would have compacted its window. */
async function compactedAt(agent: string, windowTokens: number) {
  const { fetch, sessions } = gatewayed(
    ({ text }) => completion({ content: "Go on." }, Math.ceil(text.length / 4)),
    {
      upstreams: { chat: { ...UPSTREAM, windowTokens } },
    },
  );
  const messages: object[] = [{ role: "user", content: "Read all files." }];
  for (let step = 0; step < 24; step++) {
    const body = { model: "m", max_tokens: 4_000, tools: [READ], messages };
    await (await fetch(post(body, { "user-agent": `${agent}/1.2 (linux)` }))).text();
    messages.push(
      { role: "assistant", content: null, tool_calls: [call("read", { path: `${step}.ts` }, `c${step}`)] },
      { role: "tool", tool_call_id: `c${step}`, content: `${step} ${RESULT}` },
    );
  }
  const { sessions: [only] } = (await sessions.list({ limit: 10 }))!;
  const calls = await (await sessions.open(only!.id))!.calls();
  return calls.flatMap(({ baseline }, at) =>
    baseline?.compacts ? [calls[at - 1]!.baseline!.promptTokens] : []
  );
}

Deno.test("baseline: clients compact where their agent does, with the requested reply length", async () => {
  const [pi] = await compactedAt("pi", 40_000);
  const [opencode] = await compactedAt("opencode", 40_000);
  assert(pi! > 20_000 && pi! < 40_000 - 16_384, `${pi}`);
  assert(opencode! > 36_000 && opencode! < 40_000, `${opencode}`);
  const [other] = await compactedAt("somebody", 40_000);
  assert(other! > pi! && other! < opencode!);
  assertEquals(await compactedAt("pi", 100_000), []);
});

async function withoutTare(windowTokens: number): Promise<number> {
  const prompts: string[] = [];
  const { fetch, ledger } = gatewayed(
    ({ body }) => {
      const messages = body.messages as { content: unknown }[];
      const prompt = messages.map((message) => JSON.stringify(message)).join();
      const before = prompts.findLast((before) => prompt.startsWith(before)) ?? "";
      prompts.push(prompt);
      const isSummary = messages.at(-1)?.content === SUMMARIZE;
      return Response.json({
        choices: [{ message: { role: "assistant", content: isSummary ? SUMMARY : "Go on." } }],
        usage: {
          prompt_tokens: Math.ceil(prompt.length / 4),
          completion_tokens: 5,
          prompt_tokens_details: { cached_tokens: Math.floor(before.length / 4) },
        },
      });
    },
    { upstreams: { chat: { ...UPSTREAM, profile: profileNamed("openai"), windowTokens } } },
  );
  const ask = async (messages: readonly object[]) => {
    const body = { model: "m", max_tokens: 4_000, tools: [READ], messages };
    await (await fetch(post(body, { "user-agent": "somebody/1.2" }))).text();
  };
  let messages: object[] = [{ role: "user", content: "Read all files." }];
  for (let step = 0; step < 22; step++) {
    await ask(messages);
    messages.push(
      { role: "assistant", content: null, tool_calls: [call("read", { path: `${step}.ts` }, `c${step}`)] },
      { role: "tool", tool_call_id: `c${step}`, content: `${step} ${RESULT}` },
    );
    if (step !== 16) continue;
    await ask([...messages, { role: "user", content: SUMMARIZE }]);
    messages = [{ role: "user", content: SUMMARY }];
  }
  const { compactions, baselineCostUnits } = (await ledger()).planned;
  assertEquals(compactions, 1);
  return baselineCostUnits;
}

Deno.test("baseline: an assumed compaction is removed once the client compacts later", async () => {
  const thought = await withoutTare(40_000);
  const nothing = await withoutTare(1_000_000);
  assertAlmostEquals(thought, nothing, 0.01 * nothing);
});
