import { assert, assertEquals } from "@std/assert";
import type { ModelRequest, ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import type { Profile } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { inventedTools } from "./invented_tools.ts";
import { type Offering, OFFERINGS, playTools } from "./many_tools.ts";
import { needs, RECORDINGS } from "./needs.ts";

const BY_SERVER = OFFERINGS.slice(0, 2);
const BY_GATEWAY = OFFERINGS.filter(({ isGateway }) => isGateway);

async function assertWorthwhile(tools: readonly ToolDefinition[], profile: Profile): Promise<void> {
  for (const offerings of [BY_SERVER, BY_GATEWAY]) await assertSaves(tools, profile, offerings);
}

async function assertSaves(
  tools: readonly ToolDefinition[],
  profile: Profile,
  [inFull, offering]: readonly Offering[],
): Promise<void> {
  const { count: countTokens } = await loadTokenizer();
  const full = await playTools(tools, { profile, offering: inFull!, countTokens });
  const deferred = await playTools(tools, { profile, offering: offering!, countTokens });
  assert(deferred.toolTokens < 3_000, `${deferred.toolTokens} tokens`);
  assert(deferred.costUnits < 0.65 * full.costUnits, `${deferred.costUnits} of ${full.costUnits}`);
  const omittedTokens = full.promptTokens - deferred.promptTokens;
  assert(
    Math.abs(deferred.deferredTokens - omittedTokens) < 0.01 * omittedTokens,
    `${deferred.deferredTokens} of ${omittedTokens}`,
  );
  assertEquals(deferred.results.filter((text) => text.startsWith("Cannot")), []);
  // Without a cache, definitions are compacted at the first chance.
  if (profile.name !== "none") assertPrefixes(deferred.requests);
}

function assertPrefixes(requests: readonly ModelRequest[]): void {
  for (const [at, { messages, tools }] of requests.slice(1).entries()) {
    const before = requests[at]!;
    assertEquals(JSON.stringify(tools), JSON.stringify(before.tools));
    const start = messages.slice(0, before.messages.length);
    assertEquals(JSON.stringify(start), JSON.stringify(before.messages), `request ${at + 2}`);
  }
}

Deno.test("many tools: a session with 117 generated tools costs two thirds at most, with under 3,000 prompt tokens of tools", async () => {
  for (const name of ["anthropic-5m", "none"]) await assertWorthwhile(inventedTools(117), PROFILES[name]!);
});

const RECORDED = new URL("../../shared/trajectories/github-mcp-server.json", import.meta.url);

Deno.test({
  ...needs(
    RECORDINGS,
    "many tools: a session with the 117 tools of an MCP server costs two thirds at most, for any provider",
  ),
  async fn() {
    const { tools } = JSON.parse(await Deno.readTextFile(RECORDED));
    for (const profile of Object.values(PROFILES)) await assertWorthwhile(tools, profile);
  },
});
