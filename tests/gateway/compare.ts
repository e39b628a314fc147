import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { scripted, type SimulatedCall } from "@tare/simulator";
import { startGateway } from "./gateway.ts";
import { ANSWER, CALLS, runTool, SCRIPT } from "./long_session.ts";
import { predict, recordingOf } from "./predict.ts";
import { costOf, startUpstream } from "./upstream.ts";

export interface Client {
  readonly baseURL: string;
  readonly run: (name: string, args: unknown) => string;
  readonly fetch: typeof fetch;
}

export interface Played {
  readonly answer: string;
  readonly calls: readonly string[];
  readonly bodies: readonly string[];
}

export async function play(baseURL: string, client: (client: Client) => Promise<string>): Promise<Played> {
  const calls: string[] = [];
  const bodies: string[] = [];
  const answer = await client({
    baseURL,
    run(name, args) {
      const text = typeof args === "string" ? args : JSON.stringify(args);
      calls.push(`${name} ${text}`);
      return runTool(name, text);
    },
    async fetch(input, init) {
      const request = new Request(input, init);
      bodies.push(await request.clone().text());
      return await fetch(request);
    },
  });
  return { answer, calls, bodies };
}

/**
 * Relative tolerance to the benchmark, which caches whole messages; providers also serve the beginning of a
 * changed one.
 */
const TOLERANCE = 0.005;

/**
 * Plays the long session with and without the gateway. The client must see and send the same, at the
 * benchmark's lower cost.
 */
export async function compare(
  client: (client: Client) => Promise<string>,
  { tolerance = TOLERANCE, ...rules }: { readonly profile?: Profile; readonly tolerance?: number } = {},
): Promise<void> {
  await using direct = await startUpstream(scripted(SCRIPT), rules);
  const alone = await play(direct.baseURL, client);
  assertEquals([alone.answer, alone.calls], [ANSWER, CALLS]);

  await using through = await startUpstream(scripted(SCRIPT), rules);
  await using gateway = await startGateway(through);
  const guided = await play(gateway.baseURL, client);
  assertEquals(guided, alone);
  assertEquals(gateway.errors, []);

  const { profile, tokenizer } = direct;
  const isChat = "messages" in JSON.parse(alone.bodies[0]!);
  const requests = isChat ? direct.requests : direct.requests.map(byItems);
  const predicted = await predict(recordingOf(requests), { profile, countTokens: tokenizer.count });
  const cost = costOf(through);
  const saved = 1 - cost / costOf(direct);
  assert(saved > 0.1, `the gateway saved ${(100 * saved).toFixed(1)} %`);
  assertAlmostEquals(cost / predicted.cost, 1, tolerance);
}

function byItems(request: SimulatedCall): SimulatedCall {
  return {
    ...request,
    messages: request.messages.flatMap((message): readonly Message[] => {
      if (message.role !== "assistant" || !message.tool_calls) return [message];
      const { tool_calls: calls, ...entry } = message;
      return [
        ...(entry.content ? [entry] : []),
        ...calls.map((call) => ({ role: "assistant" as const, tool_calls: [call] })),
      ];
    }),
  };
}
