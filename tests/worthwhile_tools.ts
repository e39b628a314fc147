import { assert, assertEquals } from "@std/assert";
import type { ModelRequest, ToolDefinition } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { loadTokenizer } from "@tare/tiktoken";
import { type Offering, OFFERINGS, playTools } from "./many_tools.ts";

const BY_SERVER = OFFERINGS.slice(0, 2);
const BY_GATEWAY = OFFERINGS.filter(({ isGateway }) => isGateway);

/** Asserts that deferring tools saves at least 35 %, and is recorded as such, on the server and through the gateway. */
export async function assertWorthwhile(tools: readonly ToolDefinition[], profile: Profile): Promise<void> {
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
