import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ModelError } from "@tare/loop";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { type Fault, simulator } from "@tare/simulator";
import { probeCache } from "../scripts/probe/probe_cache.ts";
import { lastWords, measuring, PRICES } from "./measured.ts";

const MINUTE = 60_000;
const ARGS = ["--upgrade", "--name", "u"];
const PAID = [...ARGS, ...PRICES, "--budget", "1"];

type Rewrite = (body: string, number: number) => string;

/** Starts a Messages provider, whose cache uses a clock that advances only by waiting. */
async function messagesProvider(rewrite: Rewrite = (body) => body) {
  const around = await measuring();
  const faults: (Fault | null)[] = [];
  const provider = simulator({
    model: () => ({ content: "yes" }),
    tokenizer: await loadTokenizer(),
    profile: profileNamed("anthropic-5m"),
    now: around.clock.now,
    faults: () => faults.shift() ?? null,
  });
  let number = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const body = rewrite(await request.text(), ++number);
    return provider.fetch(new Request(request.url, { method: "POST", headers: request.headers, body }));
  });
  return {
    ...around,
    environment: {
      ANTHROPIC_API_KEY: "key",
      ANTHROPIC_BASE_URL: `http://127.0.0.1:${server.addr.port}`,
      TARE_MODEL: "claude-m",
    },
    requests: provider.requests,
    faults,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await around[Symbol.asyncDispose]();
    },
  };
}

function numbersIn(text: string): string[] {
  return text.split("\n").slice(1, 5).map((line) => line.replaceAll(/\s{2,}/g, " | "));
}

Deno.test("bench cache --upgrade: four requests measure price and lifetime of an extended keep-alive", async () => {
  await using around = await messagesProvider();
  const { text, stopped } = await probeCache(PAID, around);
  assertEquals(stopped, undefined);
  assertEquals(numbersIn(text), [
    "0s | writes the prefix for five minutes | 20033 | 0 | 20033 | 0 | $0.0250",
    "4m 40s | reads it, with a one-hour breakpoint after a reply | 20656 | 20033 | 0 | 618 | $0.0032",
    "38m | reads it after the five minutes | 20667 | 20651 | 16 | 0 | $0.0021",
    "1h 10m | reads it after the hour, but within an hour of the last read | 20667 | 20651 | 16 | 0 | $0.0021",
  ]);
  assertMatch(
    text,
    /billed as documented: .*\n.*long after its five minutes\.\n.*renews it for another\.$/,
  );
  const [start] = around.requests.map(({ atMs }) => atMs);
  assertEquals(around.requests.map(({ atMs }) => (atMs - start!) / MINUTE), [0, 280 / 60, 38, 70]);
  assertEquals(lastWords(around.requests)[1], ".");
  // Priced before anything is sent.
  assertMatch(
    around.lines[0]!,
    /^four requests in 1h 10m: about \$0\.0323, at most \$0\.1185 \(\$0\.0000 of \$1\.0000\)$/,
  );
  const { spentUsd, calls, summary } = JSON.parse(await around.read("u.json"));
  assertEquals([spentUsd.toFixed(3), calls], ["0.032", 4]);
  assertEquals(summary, { billedAsDocumented: true, livesForAnHour: true, isRefreshed: true });
  // A repetition of finished work changes nothing.
  assertEquals((await probeCache(PAID, around)).text, text);
  assertEquals(around.requests.length, 4);
});

Deno.test("bench cache --upgrade: an hour granted as five minutes, and a read that doesn't extend it, are reported", async () => {
  const cases: [Rewrite, RegExp][] = [
    [
      (body) => body.replaceAll(',"ttl":"1h"', ""),
      /not available here\.\n.*was not cached after its five minutes: .*\n/,
    ],
    // The last request finds nothing.
    [
      (body, number) => number === 4 ? body.replace('"text":"', '"text":"gone ') : body,
      /billed as documented: .*\n.*long after its five minutes\.\n.*doesn't renew it\.$/,
    ],
  ];
  for (const [rewrite, expected] of cases) {
    await using around = await messagesProvider(rewrite);
    assertMatch((await probeCache(PAID, around)).text, expected);
  }
});

Deno.test("bench cache --upgrade: an interrupted run resumes, or restarts if it is too late", async () => {
  for (const [pauseMs, sent] of [[0, 4], [5 * MINUTE, 5]] as const) {
    await using around = await messagesProvider();
    around.faults.push(null, { type: "error", status: 400 });
    await assertRejects(() => probeCache(PAID, around), ModelError);
    await around.clock.wait(pauseMs);
    assertStringIncludes((await probeCache(PAID, around)).text, "billed as documented");
    assertEquals(around.requests.filter(({ status }) => status === 200).length, sent);
  }
});

Deno.test("bench cache --upgrade: the run stops before the budget is exceeded, and reports the required one", async () => {
  await using around = await messagesProvider();
  const { stopped, text } = await probeCache([...ARGS, ...PRICES, "--budget", "0.04"], around);
  assertMatch(stopped ?? "", /^Stopped: the next request could cost /);
  assert(numbersIn(text).length > 0 && around.requests.length === 1);
  await assertRejects(() => probeCache(ARGS, around), RangeError, "Cannot start: --price-in is not set");
  const environment = { ...around.environment, TARE_MODEL: "" };
  await assertRejects(
    () => probeCache(PAID, { ...around, environment }),
    RangeError,
    "TARE_MODEL is not set",
  );
});
