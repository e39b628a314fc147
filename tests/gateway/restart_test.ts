import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../cases.ts";
import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import { estimateTokens, type Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryStore } from "@tare/session/sqlite";
import {
  assertSame,
  played,
  type SentRequest,
  whole,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import {
  CHAT,
  type Dialect,
  MESSAGES,
  RESPONSES,
} from "../../packages/gateway/sessions/dialects_fixture_test.ts";
import type { Recording } from "@tare/simulator/economy";
import { generateWorkload } from "../workload.ts";
import {
  chatBody,
  type GeneratedRequest,
  maltreatedSessions,
  messagesBody,
  responsesBody,
} from "./request_bodies.ts";
import { recordedSessions } from "../recorded_sessions.ts";
import { needs, RECORDINGS } from "../needs.ts";

const BODIES: readonly (readonly [Dialect, (messages: readonly Message[]) => object])[] = [
  [CHAT, (messages) => chatBody(messages, true)],
  [RESPONSES, (messages) => responsesBody(messages, true)],
  [MESSAGES, (messages) => messagesBody(messages, { hasTools: true, breakpoints: "end" })],
];

async function compare(
  { messages, calls }: Recording,
  [dialect, bodyOf]: typeof BODIES[number],
): Promise<number> {
  const requests = calls.map((call, at): SentRequest => ({
    path: dialect.path,
    body: { model: "gpt-5", ...bodyOf(messages.slice(0, call.messages)), stream: true },
    reply: { text: "Yes.", id: "msg_yes" },
    pauseMs: at === 0 ? 0 : call.timeMs - calls[at - 1]!.timeMs,
  }));
  const expected = await whole(requests, dialect);
  const store = memoryStore();
  assertSame(
    await played(requests, dialect, { store: () => store, gatewayAt: () => ({ isRestarted: true }) }),
    expected,
  );
  return expected.sent.filter((text) => text.includes("[elided: ")).length;
}

for (const body of BODIES) {
  Deno.test(`restart: gateways reopened for each request send the bytes of a generated session as one does: ${body[0].name}`, async () => {
    assert(await compare(generateWorkload()[3]!, body) > 10);
  });
}

const MAX_CALLS = 40;

Deno.test({
  ...needs(
    RECORDINGS,
    "restart: gateways reopened for each request send the bytes of recorded sessions in ../shared/trajectories as one does",
  ),
  async fn() {
    let elided = 0;
    for (const [at, recording] of recordedSessions({ limit: 3 }).entries()) {
      const body = BODIES[at % BODIES.length]!;
      if (recording.calls.length <= MAX_CALLS) elided += await compare(recording, body);
    }
    assert(elided > 10);
  },
});

Deno.test("restart: gateways reopened for each request send the bytes of fuzzed sessions as one does", async () => {
  const rules = { profile: profileNamed("none"), windowTokens: 24_000 };
  const provider = { ...rules, baseURL: "http://upstream.test/v1" };
  const sent = async (
    requests: readonly GeneratedRequest[],
    next: (options: GatewayOptions) => HttpGateway,
  ) => {
    const bodies: string[] = [];
    let nowMs = 0;
    const fetch = async (...args: Parameters<typeof globalThis.fetch>) => {
      const request = new Request(...args);
      const dialect = [CHAT, RESPONSES, MESSAGES].find(({ path }) => request.url.includes(path)) ?? CHAT;
      bodies.push(await request.text());
      const { stream } = JSON.parse(bodies.at(-1)!) ?? {};
      return await dialect.answer({ stream: stream === true }, { text: "Yes.", id: "msg_yes" }, 0);
    };
    const options: GatewayOptions = {
      upstreams: { chat: provider, responses: provider, messages: provider },
      countTokens: () => Promise.resolve(estimateTokens),
      now: () => nowMs,
      fetch: ((...args) => fetch(...args).catch(() => Response.json({}))) as typeof globalThis.fetch,
    };
    for (const { path, body } of requests) {
      nowMs += 1_000;
      const request = new Request(`http://gateway.test${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      await (await next(options).fetch(request))?.text();
    }
    return bodies;
  };
  const sessions = maltreatedSessions(["/v1/chat/completions", "/v1/responses", "/v1/messages"]);
  const numRuns = cases(100);
  let differing = 0;
  for (const requests of fc.sample(sessions, { numRuns, seed: 1 })) {
    let one: HttpGateway | undefined;
    const expected = await sent(requests, (options) => one ??= gateway(options));
    const store = memoryStore();
    const restarted = await sent(requests, (options) => gateway({ ...options, store }));
    assertEquals(restarted.length, expected.length);
    if (restarted.some((body, at) => body !== expected[at])) differing++;
  }
  // A client that changes its newest messages twice may be reset: some 1.5 % of the sessions.
  assert(differing <= 0.02 * numRuns, `${differing} of ${numRuns} differ`);
});
