import { assert, assertEquals } from "@std/assert";
import type { CountTokens } from "@tare/messages";
import { type Profile, profileNamed } from "@tare/planner";
import { PrefixCache } from "@tare/planner/internal/parts";
import { replay as replayModel, type SimulatedCall } from "@tare/simulator";
import { CHAT_PROTOCOL, type JsonReader, readJsonAt, readRequest, readWireBody } from "@tare/wire/internal";
import type { Recording } from "@tare/simulator/economy";
import { generateWorkload } from "../workload.ts";
import { startGateway } from "./gateway.ts";
import { predict, type PredictedCall } from "./predict.ts";
import { startUpstream } from "./upstream.ts";
import { recordedSessions } from "../recorded_sessions.ts";
import { needs, RECORDINGS } from "../needs.ts";

async function replayThroughGateway(recording: Recording, profileName: string): Promise<void> {
  const { messages, tools, calls } = recording;
  const profile = profileNamed(profileName);
  const timeOf = (request: number) => calls[Math.min(request, calls.length - 1)]?.timeMs ?? 0;
  await using upstream = await startUpstream(replayModel(messages.slice(calls[0]?.messages)), {
    profile,
    timeOf,
  });
  await using gateway = await startGateway(upstream);
  for (const call of calls) {
    const answer = await fetch(`${gateway.baseURL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "recorded", messages: messages.slice(0, call.messages), tools }),
    });
    assertEquals(answer.status, 200, await answer.text());
  }
  assertEquals(gateway.errors, []);
  const { tokenizer: { count: countTokens }, requests } = upstream;
  const { each } = await predict(asRead(recording), { profile, countTokens });
  const sent = byMessages(requests, { profile, countTokens });
  assertEquals(sent, each);
  // Unlike in the benchmark, the provider may cache the first tokens of a changed message.
  for (const [at, { promptTokens, cachedTokens }] of requests.entries()) {
    assertEquals(promptTokens, each[at]?.promptTokens);
    const more = cachedTokens - (each[at]?.cachedTokens ?? 0);
    assert(0 <= more && more <= MORE_TOKENS, `request ${at}: ${more} tokens more than expected were cached`);
  }
}

/** Returns a recording with the gateway's call ids: placeholders contain the hash of a text with them. */
function asRead(recording: Recording): Recording {
  const bytes = new TextEncoder().encode(JSON.stringify({ messages: recording.messages }));
  const { items } = readRequest(readWireBody(bytes), CHAT_PROTOCOL, { items: reader, tools: reader });
  const messages = items.flatMap(({ parts }) => parts.map(({ message }) => message));
  assertEquals(messages.length, recording.messages.length);
  return { ...recording, messages };
}

const reader: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};

/** Most tokens of a changed message's beginning, rounded up to a block. */
const MORE_TOKENS = 256;

function byMessages(
  requests: readonly SimulatedCall[],
  { profile, countTokens }: { readonly profile: Profile; readonly countTokens: CountTokens },
): PredictedCall[] {
  const cache = new PrefixCache(profile);
  return requests.map((request) => {
    const units = PrefixCache.unitsOf(request, countTokens);
    const cachedTokens = cache.lookup(units, request.atMs);
    cache.store(units, request.atMs);
    return { promptTokens: units.reduce((sum, { tokens }) => sum + tokens, 0), cachedTokens };
  });
}

for (const profile of ["openai", "anthropic-5m", "none"]) {
  Deno.test(`gateway: a generated session costs what the benchmark predicts, call by call, at ${profile}`, async () => {
    const recording = generateWorkload()[3];
    assert(recording);
    await replayThroughGateway(recording, profile);
  });
}

Deno.test({
  ...needs(
    RECORDINGS,
    "gateway: recorded sessions in ../shared/trajectories cost what the benchmark predicts",
  ),
  async fn() {
    for (const recording of recordedSessions({ limit: 1 })) await replayThroughGateway(recording, "openai");
  },
});
