import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { scripted, type SimulatedCall } from "@tare/simulator";
import { startGateway } from "./gateway.ts";
import { ANSWER, CALLS, runTool, SCRIPT } from "./long_session.ts";
import { predict, recordingOf } from "./predict.ts";
import { costOf, startUpstream } from "./upstream.ts";

/** What a client is handed: where to send its requests, and the tools' results. */
export interface Client {
  readonly baseURL: string;
  /** Runs a tool and takes note of the call. `args` as the client got them: the JSON text, or what it read from it. */
  readonly run: (name: string, args: unknown) => string;
  /** Takes note of what the client sends. */
  readonly fetch: typeof fetch;
}

/** How a session went. */
export interface Played {
  readonly answer: string;
  readonly calls: readonly string[];
  /** The bodies that the client sent. */
  readonly bodies: readonly string[];
}

/** Plays the long session with a client. */
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
 * How far the provider's bill may be from the benchmark's, as a share. The benchmark takes a message as cached whole or
 * not at all; a provider also serves the first tokens of a message that was changed behind them, in blocks of 128.
 */
const TOLERANCE = 0.005;

/**
 * Plays the long session with a client, once directly and once through the gateway. Everything that the client gets to
 * see and sends must be the same; what the provider charges must be less, by what the benchmark says.
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

/** A request as it is over responses, where each text and each call of a reply is an item of its own. */
function byItems(request: SimulatedCall): SimulatedCall {
  return {
    ...request,
    messages: request.messages.flatMap((message): readonly Message[] => {
      if (message.role !== "assistant" || !message.tool_calls) return [message];
      const { tool_calls: calls, ...said } = message;
      return [
        ...(said.content ? [said] : []),
        ...calls.map((call) => ({ role: "assistant" as const, tool_calls: [call] })),
      ];
    }),
  };
}
