import { assert, assertEquals } from "@std/assert";
import { call, completion, gatewayed, post, READ, UPSTREAM } from "./fixture_test.ts";

const RESULT = "A line of a file that was read. ".repeat(250);

/** The prompts, in tokens, before which a client of this name would have compacted its window, as far as it knows it. */
async function compactedAt(agent: string, windowTokens: number) {
  const { fetch, conversations } = gatewayed(
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
  const { conversations: [only] } = (await conversations.list({ limit: 10 }))!;
  const calls = await (await conversations.get(only!.id))!.calls();
  return calls.flatMap(({ without }, at) => without?.compacts ? [calls[at - 1]!.without!.promptTokens] : []);
}

Deno.test("gateway reckons with a client that compacts where its agent does, by the reply that it asks for too", async () => {
  const [pi] = await compactedAt("pi", 40_000);
  const [opencode] = await compactedAt("opencode", 40_000);
  assert(pi! > 20_000 && pi! < 40_000 - 16_384, `${pi}`);
  // It has sent what is too much.
  assert(opencode! > 36_000 && opencode! < 40_000, `${opencode}`);
  const [other] = await compactedAt("somebody", 40_000);
  assert(other! > pi! && other! < opencode!);
  assertEquals(await compactedAt("pi", 100_000), []);
});
