import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../cases.ts";
import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { refusalOf } from "@tare/simulator";
import { dialectsOf } from "../refused.ts";
import { checkLossless, type FoundEdits } from "./lossless.ts";
import { oddUpstream } from "./odd_upstream.ts";
import { type GeneratedRequest, maltreatedSessions } from "./request_bodies.ts";

/** Batches of 100 sessions with four requests each. */
const BATCHES = cases(3);

const BATCH_REQUESTS = 400;

const PASSED = ["content-type", "x-request-id", "x-ratelimit-remaining", "retry-after"];

interface Tally extends FoundEdits {
  requests: number;
  forwarded: number;
  refused: number;
  reverted: number;
}

function maltreatedGateway() {
  const upstream = oddUpstream();
  const errors: unknown[] = [];
  const countTokens = () => Promise.resolve(estimateTokens);
  const onError = (error: unknown) => void errors.push(error);
  // Without a cache every edit pays at once; no window is full, otherwise answers would be evicted as well.
  const rules = { profile: profileNamed("none"), windowTokens: 400_000 };
  const provider = { ...rules, baseURL: "http://upstream.test/v1" };
  const { unguarded: ask } = agentHandler({
    models: {
      model: () => {
        throw new Error("the model agent isn't called here");
      },
      defaultModel: "none",
      ...{ ...rules, countTokens },
    },
    onError,
    tools: [],
    store: memoryStore(),
    gateway: gateway({
      ...{ countTokens, onError },
      upstreams: { chat: provider, responses: provider, messages: provider },
      fetch: upstream.fetch,
    }),
    prompt: {
      mechanisms: {
        context: true,
        prune: true,
        schemas: true,
        truncate: false,
        references: false,
        normalization: false,
      },
    },
  });
  return { ask, upstream, errors };
}

function asksForUsage(body: Uint8Array<ArrayBuffer>): boolean {
  try {
    return JSON.parse(new TextDecoder().decode(body))?.stream_options?.include_usage === true;
  } catch {
    return false;
  }
}

async function check(
  { path, body }: GeneratedRequest,
  { ask, upstream }: ReturnType<typeof maltreatedGateway>,
  tally: Tally,
): Promise<void> {
  upstream.exchanges.length = 0;
  const response = await ask(
    new Request(`http://127.0.0.1${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer key" },
      body,
    }),
    { caller: Keys.OWNER },
  );
  const text = await response.text();
  tally.requests++;
  const [first, second, ...more] = upstream.exchanges;
  const exchange = second ?? first;
  assertEquals(more.length, 0, "one request went upstream more than twice");
  if (!first || !exchange) {
    tally.refused++;
    assert(response.status >= 400 && response.status < 500, `${response.status}: ${text}`);
    const { error } = JSON.parse(text);
    assert(typeof error.message === "string" && error.message.length > 10, text);
    return;
  }
  tally.forwarded++;
  assertEquals(exchange.path, path);
  await checkLossless({ path, sent: body, reached: first.body }, tally);
  // Only a sample: each is checked by the rules of several providers.
  if (tally.requests % 5 === 0) checkLegal(path, body, first.body);
  if (second) {
    // The edited request is refused: the client gets the answer to its own.
    tally.reverted++;
    assertEquals([first.status, second.body], [400, body]);
  }
  assertEquals(response.status, exchange.status);
  assertEquals(text, asksForUsage(body) ? exchange.answer : exchange.answer.replace(exchange.tally, ""));
  for (const name of PASSED) {
    assertEquals(response.headers.get(name), exchange.headers[name] ?? null, `header ${name}`);
  }
}

function checkLegal(path: string, sent: Uint8Array<ArrayBuffer>, reached: Uint8Array<ArrayBuffer>): void {
  if (sent.length === reached.length && sent.every((byte, at) => byte === reached[at])) return;
  const [before, after] = [sent, reached].map(readJson);
  for (const dialect of dialectsOf(path)) {
    if (refusalOf(before, dialect) === undefined) assertEquals(refusalOf(after, dialect), undefined, dialect);
  }
}

function readJson(body: Uint8Array<ArrayBuffer>): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

Deno.test("gateway: fuzzed requests lose nothing and get an answer", async () => {
  await maltreat(["/v1/chat/completions", "/v1/responses"]);
});

Deno.test("gateway: fuzzed Messages requests lose nothing, keep their cache breakpoints and get an answer", async () => {
  await maltreat(["/v1/messages"]);
});

async function maltreat(paths: readonly GeneratedRequest["path"][]): Promise<void> {
  const tally: Tally = {
    requests: 0,
    forwarded: 0,
    refused: 0,
    reverted: 0,
    elided: 0,
    ingested: 0,
    dropped: 0,
    compacted: 0,
  };
  const maltreated = maltreatedGateway();
  for (let batch = 0; batch < BATCHES; batch++) {
    for (const requests of fc.sample(maltreatedSessions(paths), { numRuns: 100, seed: batch })) {
      for (const request of requests) {
        try {
          await check(request, maltreated, tally);
        } catch (cause) {
          const body = new TextDecoder().decode(request.body).slice(0, 2_000);
          throw new Error(`Request ${tally.requests} of batch ${batch}, ${request.path}: ${body}`, { cause });
        }
      }
    }
  }
  assertEquals(tally.requests, BATCHES * BATCH_REQUESTS);
  // Unknown shapes are reported as such; other failures are bugs.
  assertEquals(
    maltreated.errors.map(String).filter((error) =>
      /of undefined|of null|is not a |not iterable/.test(error)
    ),
    [],
  );
  // The generator must produce every kind of edit.
  assert(
    tally.forwarded > tally.requests / 2 &&
      Math.min(tally.elided, tally.ingested, tally.compacted) >= BATCHES / 3 &&
      // Few steps are dropped: those with media stay.
      tally.dropped >= Math.floor(BATCHES / 12),
    JSON.stringify(tally),
  );
}
