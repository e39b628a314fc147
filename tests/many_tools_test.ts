import { assert, assertEquals } from "@std/assert";
import type { ModelRequest, ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type Profile, PROFILES } from "@tare/planner";
import { inventedTools } from "../scripts/bench/many_tools/invented_tools.ts";
import type { Recording } from "@tare/simulator/economy";
import { generateWorkload } from "../scripts/bench/economy/workload.ts";
import { playOwnTools } from "../scripts/bench/many_tools/own_tools.ts";
import { OFFERINGS, playTools } from "../scripts/bench/many_tools/play_tools.ts";
import { needs, RECORDINGS } from "./needs.ts";

const [FULL, DEFERRED] = OFFERINGS;

/** The session of the benchmark with these tools: what is promised of it. */
async function assertWorthwhile(tools: readonly ToolDefinition[], profile: Profile): Promise<void> {
  const { count: countTokens } = await loadTokenizer();
  const full = await playTools(tools, { profile, offering: FULL!, countTokens });
  const deferred = await playTools(tools, { profile, offering: DEFERRED!, countTokens });
  assert(deferred.toolTokens < 3_000, `${deferred.toolTokens} tokens`);
  assert(deferred.tokenUnits < 0.65 * full.tokenUnits, `${deferred.tokenUnits} of ${full.tokenUnits}`);
  // The ledger is told by who knows both sessions.
  const kept = full.promptTokens - deferred.promptTokens;
  assert(Math.abs(deferred.deferredTokens - kept) < 0.01 * kept, `${deferred.deferredTokens} of ${kept}`);
  assertEquals(deferred.results.filter((text) => text.startsWith("Cannot")), []);
  assertPrefixes(deferred.requests);
}

/** Each request is a prefix of the next, the tools the same. */
function assertPrefixes(requests: readonly ModelRequest[]): void {
  for (const [at, { messages, tools }] of requests.slice(1).entries()) {
    const before = requests[at]!;
    assertEquals(JSON.stringify(tools), JSON.stringify(before.tools));
    const start = messages.slice(0, before.messages.length);
    assertEquals(JSON.stringify(start), JSON.stringify(before.messages), `request ${at + 2}`);
  }
}

Deno.test("a session with 117 invented tools costs two thirds at most, by less than 3,000 tokens of its prompt", async () => {
  for (const name of ["anthropic-5m", "none"]) await assertWorthwhile(inventedTools(117), PROFILES[name]!);
});

Deno.test("what the server's own tools take of sessions is less where some are compact, until their prose is asked for, and more where they are deferred", async () => {
  const { count: countTokens } = await loadTokenizer();
  const profile = PROFILES["anthropic-5m"]!;
  const [unused] = generateWorkload();
  assert(unused);
  const writing = {
    ...unused,
    messages: JSON.parse(JSON.stringify(unused.messages).replaceAll('"name":"search"', '"name":"Write"')),
  };
  const of = async (recording: Recording) => {
    const [full, compact, deferred] = await playOwnTools([recording], { profile, countTokens });
    assert(full && compact && deferred);
    assertEquals([full.least, full.most], [1, 1]);
    assert(compact.toolTokens < full.toolTokens && full.toolTokens < deferred.toolTokens);
    return { compact, deferred };
  };
  const [idle, busy] = [await of(unused), await of(writing)];
  for (const { using, least, most } of Object.values(idle)) assert(using === 0 && most === least);
  for (const { using, most } of Object.values(busy)) assert(using === 1 && most > 1);
  for (const { compact, deferred } of [idle, busy]) assert(compact.least < 1 && deferred.least > 1);
});

const RECORDED = new URL("../../shared/trajectories/github-mcp-server.json", import.meta.url);

Deno.test({
  ...needs(
    RECORDINGS,
    "a session with the 117 tools of an MCP server costs two thirds at most, whatever the provider",
  ),
  async fn() {
    const { tools } = JSON.parse(await Deno.readTextFile(RECORDED));
    for (const profile of Object.values(PROFILES)) await assertWorthwhile(tools, profile);
  },
});
