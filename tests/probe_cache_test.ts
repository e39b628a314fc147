import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { ModelError } from "@tare/loop";
import { profileNamed } from "@tare/planner";
import { readProfileFile } from "@tare/planner/internal";
import { readSettings } from "../packages/app/settings/settings.ts";
import { probeCache } from "../scripts/probe/probe_cache.ts";
import { lastWords, measuring, measuringOverHttp, PRICES } from "./measured.ts";

const MINUTE = 60_000;
const ARGS = ["--idle", "1m,4m,6m,10m", "--repeats", "2", "--tokens", "2000", "--name", "t"];
const PAID = [...ARGS, ...PRICES, "--budget", "1"];

const ok = () => ({ content: "ok" });

const FIRST = "Answer with the word first.";
const SECOND = "Answer with the word second.";

Deno.test("bench cache: a provider's time to live is measured, and the server starts with the written profile", async () => {
  await using around = await measuringOverHttp({ profile: "anthropic-5m", model: ok });
  const { text, stopped } = await probeCache(PAID, around);
  assertEquals(stopped, undefined);
  assertEquals(text.split("\n").slice(0, 5).map((line) => line.replaceAll(/\s{2,}/g, " | ")), [
    "idle | still cached | share of tokens | profile | measured",
    "1m | 2 of 2 | 99.7% | 0.994 | 0.998",
    "4m | 2 of 2 | 99.7% | 0.913 | 0.971",
    "6m | 0 of 2 | 0.0% | 0.516 | 0.172",
    "10m | 0 of 2 | 0.0% | 0.516 | 0.172",
  ]);
  const path = `${around.folder}/t.profile.json`;
  const { profile } = readSettings(["--profile", path], {});
  assertEquals(profile?.profile, {
    ...profileNamed("anthropic-5m"),
    name: "anthropic-5m, measured",
    ttlMs: 4 * MINUTE,
    cacheLifetime: [
      { idleMs: MINUTE, probability: 0.998 },
      { idleMs: 4 * MINUTE, probability: 0.971 },
      { idleMs: 6 * MINUTE, probability: 0.172 },
      { idleMs: 10 * MINUTE, probability: 0.172 },
      { idleMs: 30 * MINUTE, probability: 0.172 },
      { idleMs: 60 * MINUTE, probability: 0.172 },
      { idleMs: 120 * MINUTE, probability: 0.045 },
    ],
    source: "deno task bench cache, m",
    notes: "2 prefixes of 2000 tokens for each idle time.",
  });
  assertStringIncludes(text, path);
  // No prefix had been sent before, and each pause was long enough.
  const { requests } = around;
  assertEquals(lastWords(requests).toSorted(), [...Array(8).fill(FIRST), ...Array(8).fill(SECOND)]);
  const { results } = JSON.parse(await around.read("t.json"));
  assertEquals(
    Object.fromEntries(
      Object.entries<{ idleMs: number }>(results).map(([key, { idleMs }]) => [key, idleMs / MINUTE]),
    ),
    Object.fromEntries([1, 4, 6, 10].flatMap((idle) => [[`${idle}m no. 1`, idle], [`${idle}m no. 2`, idle]])),
  );
  assert(
    requests.every(({ messages, cachedTokens }) => cachedTokens === 0 || messages.at(-1)?.content === SECOND),
  );
  // A repetition of finished work changes nothing.
  assertEquals((await probeCache(PAID, around)).text, text);
  assertEquals(requests.length, 16);
});

Deno.test("bench cache: an interrupted run resumes, and repeats requests whose pause was too long", async () => {
  for (const [pauseMs, sentAgain] of [[0, 0], [15 * MINUTE, 6]] as const) {
    await using around = await measuringOverHttp({ profile: "anthropic-5m", model: ok });
    // All but one are sent, the first is read back, and the last can't be sent.
    around.faults.push(...Array(8).fill(null), { type: "error", status: 400 });
    await assertRejects(() => probeCache(PAID, around), ModelError);
    await around.clock.wait(pauseMs);
    const { text } = await probeCache(PAID, around);
    assertMatch(text, /1m +2 of 2.*\n4m +2 of 2.*\n6m +0 of 2.*\n10m +0 of 2/);
    assertEquals(around.requests.filter(({ status }) => status === 200).length, 16 + sentAgain);
  }
});

Deno.test("bench cache: the run stops before the budget is exceeded, and resumes with a higher one", async () => {
  await using around = await measuringOverHttp({ profile: "anthropic-5m", model: ok });
  // A request costs at most 2,100 tokens at 1.25 dollars a million and an answer of 1,000 tokens at 5.
  const budget = ["--budget", "0.02"];
  const { stopped, text } = await probeCache([...ARGS, ...PRICES, ...budget], around);
  assertMatch(
    stopped ?? "",
    /^Stopped: the next request could cost \$0\.00\d\d; of the budget of \$0\.0200 \$0\.01\d\d are spent\./,
  );
  const { spentUsd, calls } = JSON.parse(await around.read("t.json"));
  assert(spentUsd <= 0.02 && calls > 2, `${spentUsd} ${calls}`);
  assertEquals(around.requests.length, calls);
  assertStringIncludes(text, "idle");
  // No further request without a higher budget.
  await probeCache([...ARGS, ...PRICES, ...budget], around);
  assertEquals(around.requests.length, calls);
  assertEquals((await probeCache(PAID, around)).stopped, undefined);
  const paid = JSON.parse(await around.read("t.json"));
  const usd = around.requests.reduce(
    (sum, { promptTokens, cachedTokens, outputTokens }) =>
      sum + ((promptTokens - cachedTokens) * 1.25 + cachedTokens * 0.1 + outputTokens * 5) / 1e6,
    0,
  );
  assertEquals(paid.spentUsd.toFixed(9), usd.toFixed(9));
});

Deno.test("bench cache: a provider that never caches is reported, and no profile is written", async () => {
  await using around = await measuringOverHttp({ profile: "none", model: ok });
  const { text } = await probeCache(PAID, around);
  assertStringIncludes(text, "Nothing was served from a cache");
  await assertRejects(() => around.read("t.profile.json"), Deno.errors.NotFound);
});

Deno.test("bench cache: the table never rises, whatever a provider does", async () => {
  await using around = await measuring();
  const cached = [0, 1920, 1920, 1920, 0, 0];
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { messages } = await request.json();
    const details = { cached_tokens: messages[1].content === SECOND ? cached.shift() : 0 };
    return Response.json({
      choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
      usage: {
        prompt_tokens: 2000,
        completion_tokens: 1,
        total_tokens: 2001,
        prompt_tokens_details: details,
      },
    });
  });
  const environment = {
    OPENAI_BASE_URL: `http://127.0.0.1:${provider.addr.port}/v1`,
    TARE_MODEL: "unheard-of",
  };
  const args = [...PAID, "--idle", "1m,4m,6m"];
  const { text } = await probeCache(args, { ...around, environment });
  await provider.shutdown();
  assertMatch(text, /1m +1 of 2.*\n4m +2 of 2.*\n6m +0 of 2/);
  // The provider's blocks match this profile.
  const { name, cacheLifetime } = readProfileFile(await around.read("t.profile.json")).profile!;
  assertEquals([name, cacheLifetime.slice(0, 3).map(({ probability }) => probability)], [
    "openai, measured",
    [0.808, 0.808, 0.233],
  ]);
});

Deno.test("bench cache: unmeasurable settings are refused, with valid ones", async () => {
  await using around = await measuringOverHttp({ profile: "openai", model: ok });
  const { environment } = around;
  const cases: [string[], typeof environment, string][] = [
    [
      ARGS,
      environment,
      "Cannot start: --price-in is not set, but it must be a number from 0. With a provider this costs money",
    ],
    [[...ARGS, ...PRICES], environment, "Cannot start: --budget is not set"],
    [[...ARGS, ...PRICES, "--budget", "1$"], environment, 'Cannot start: --budget is "1$"'],
    [
      [...PAID, "--idle", "5"],
      environment,
      'Cannot start: --idle is "5", but it must be a time such as 30s, 5m, 2h or 1d.',
    ],
    [
      [...PAID, "--repeats", "0"],
      environment,
      'Cannot start: --repeats is "0", but it must be a whole number from 1.',
    ],
    [[...PAID, "--name", "../x"], environment, 'Cannot start: --name is "../x"'],
    [[...PAID, "--idel", "5m"], environment, "Cannot start: Unknown option '--idel'"],
    [PAID, { ...environment, TARE_MODEL: "" }, "Cannot start: TARE_MODEL is not set"],
    [PAID, { ...environment, TARE_PROFILE: "x" }, 'Cannot start: TARE_PROFILE is "x"'],
  ];
  for (const [args, environment, message] of cases) {
    await assertRejects(() => probeCache(args, { ...around, environment }), RangeError, message);
  }
  assertEquals(around.requests.length, 0);
  around.faults.push(...Array(100).fill({ type: "no_usage" }));
  await assertRejects(() => probeCache(PAID, around), RangeError, "it reports no usage");
  await assertRejects(
    () => probeCache([...PAID, "--tokens", "3000"], around),
    RangeError,
    `Cannot continue with ${around.folder}/t.json: it was measured with settings {"prefixTokens":2000}, not`,
  );
  await Deno.writeTextFile(`${around.folder}/t.json`, "[]");
  await assertRejects(() => probeCache(PAID, around), RangeError, "t.json: it contains no results");
});
