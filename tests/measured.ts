import { assert } from "@std/assert";
import { contentText } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { type Fault, type SimulatedModel, type Simulator, simulator } from "@tare/simulator";
import type { Surroundings } from "../scripts/probe/experiment.ts";
import { simulatedClock } from "../scripts/probe/clock.ts";

const START_MS = Date.UTC(2026, 0, 1);

export const PRICES = ["--price-in", "1", "--price-out", "5"];

/** Environment of an experiment, whose time passes only by waiting. */
export interface Measuring extends Surroundings, AsyncDisposable {
  readonly lines: string[];
  readonly read: (file: string) => Promise<string>;
}

export async function measuring(environment: Surroundings["environment"] = {}): Promise<Measuring> {
  const folder = await Deno.makeTempDir();
  const lines: string[] = [];
  return {
    environment,
    folder,
    clock: simulatedClock(START_MS),
    log: (line) => lines.push(line),
    lines,
    read: (file) => Deno.readTextFile(`${folder}/${file}`),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

/** Environment with a provider over HTTP, whose cache uses the same clock. */
export interface MeasuringOverHttp extends Measuring {
  readonly requests: Simulator["requests"];
  readonly faults: (Fault | null)[];
}

export async function measuringOverHttp(
  { profile, model }: { readonly profile: string; readonly model: SimulatedModel },
): Promise<MeasuringOverHttp> {
  const faults: (Fault | null)[] = [];
  const tokenizer = await loadTokenizer();
  const around = await measuring();
  const provider = simulator({
    model,
    tokenizer,
    profile: profileNamed(profile),
    now: around.clock.now,
    faults: () => faults.shift() ?? null,
  });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
  return {
    ...around,
    environment: {
      OPENAI_BASE_URL: `http://127.0.0.1:${server.addr.port}/v1`,
      TARE_MODEL: "m",
      TARE_PROFILE: profile,
    },
    requests: provider.requests,
    faults,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await around[Symbol.asyncDispose]();
    },
  };
}

export function lastWords(requests: Simulator["requests"]): string[] {
  return requests.map(({ messages }) => {
    const last = messages.at(-1);
    assert(last);
    return contentText(last.content);
  });
}
