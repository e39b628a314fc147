import { assert, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { replay as replayModel } from "@tare/simulator";
import { loadData } from "../../scripts/bench/load_data.ts";
import type { Recording } from "../../scripts/bench/recording.ts";
import { generateWorkload } from "../../scripts/bench/workload.ts";
import { startGateway } from "./gateway.ts";
import { predict, type PredictedCall } from "./predict.ts";
import { startUpstream } from "./upstream.ts";

/** Sends a recorded session through the gateway as its client did: the whole history with every call. */
async function replayThroughGateway(recording: Recording, profileName: string): Promise<PredictedCall[]> {
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
  const { each, epochs } = await predict(recording, { profile, countTokens: upstream.tokenizer.count });
  const sent = upstream.requests.map(({ promptTokens, cachedTokens }) => ({ promptTokens, cachedTokens }));
  assertEquals(sent, each);
  return sent;
}

for (const profile of ["openai", "anthropic-5m", "none"]) {
  Deno.test(`gateway: a generated session costs what the benchmark says, call by call, at ${profile}`, async () => {
    const recording = generateWorkload()[3];
    assert(recording);
    await replayThroughGateway(recording, profile);
  });
}

const FOLDER = new URL("../../../shared/trajectories/", import.meta.url);

function exists(folder: URL): boolean {
  try {
    return Deno.statSync(folder).isDirectory;
  } catch {
    return false;
  }
}

Deno.test({
  name: "gateway: recorded sessions cost what the benchmark says, call by call",
  ignore: !exists(FOLDER),
  async fn() {
    for (const { recordings } of loadData(FOLDER.pathname, { limit: 1, warn() {} })) {
      for (const recording of recordings) await replayThroughGateway(recording, "openai");
    }
  },
});
