import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ModelError } from "@tare/loop";
import { contentText } from "@tare/messages";
import { benchMaintenance } from "../scripts/bench_maintenance.ts";
import type { MaintenanceSummary } from "../scripts/bench/probe/maintenance.ts";
import { lastWords, measuring, measuringOverHttp, PRICES } from "./measured.ts";

const ARGS = ["--name", "t"];
const PAID = [...ARGS, ...PRICES, "--budget", "10"];
const HOUR = 3_600_000;

Deno.test("bench:maintenance: a prune misses several times more in a warm cache, and less in a cold one", async () => {
  await using around = await measuring();
  const { text, stopped } = await benchMaintenance(ARGS, around);
  assertEquals(stopped, undefined);
  const { summary }: { summary: MaintenanceSummary } = JSON.parse(await around.read("t.json"));
  const { lines, warmTimes = 0, coldTimes = 0, warmPaysAfterCalls = 0 } = summary;
  assertEquals(lines.map(({ way, idleMs }) => [way, idleMs]), [
    ["warm, whole", 0],
    ["warm, pruned", 0],
    ["cold, whole", 24 * HOUR],
    ["cold, pruned", 24 * HOUR],
  ]);
  const [warmWhole, warmPruned, coldWhole, coldPruned] = lines.map((line) => line.missedTokens) as [
    number,
    number,
    number,
    number,
  ];
  // Of what was sent nothing but the last block is read again; after a day everything is.
  assert(warmWhole < 200, `${warmWhole}`);
  assertAlmostEquals(coldWhole, 88_000, 200);
  assertEquals(coldWhole, lines[2]?.promptTokens);
  assert(warmPruned > 3 * warmWhole && coldPruned < coldWhole / 3, JSON.stringify(lines));
  assertEquals([warmTimes, coldTimes], [warmPruned / warmWhole, coldPruned / coldWhole]);
  // The two that are equal are so before they are resumed, and the pruned ones afterwards.
  assertAlmostEquals(warmPruned, coldPruned, 10);
  assertMatch(
    text,
    /Warm, the pruned session missed \d+\.\d times as many tokens\.\nCold, it missed 0\.\d\d times/,
  );
  // So many calls later the smaller prompt has paid, and one call before it hasn't.
  const cost = (at: number, calls: number) => lines[at]!.usd * 1e6 + calls * 0.1 * lines[at]!.promptTokens;
  assert(cost(1, warmPaysAfterCalls) <= cost(0, warmPaysAfterCalls));
  assert(cost(1, warmPaysAfterCalls - 1) > cost(0, warmPaysAfterCalls - 1));
  assertMatch(await around.read("t.svg"), /^<svg .*cold, pruned/s);
});

Deno.test("bench:maintenance warns where no cache is reported, and says nothing of when a prune pays there", async () => {
  await using around = await measuring({ TARE_PROFILE: "none" });
  const { text } = await benchMaintenance([...ARGS, "--tokens", "20000", "--idle", "1h"], around);
  assertMatch(
    text,
    /\n\nWarning: of a session that had just been sent the provider reports nothing from a cache\./,
  );
  const { summary }: { summary: MaintenanceSummary } = JSON.parse(await around.read("t.json"));
  assertEquals(summary.lines.map(({ cachedTokens }) => cachedTokens), [0, 0, 0, 0]);
  assertEquals([summary.warmPaysAfterCalls, /pays/.test(text)], [undefined, false]);
  await using cached = await measuring();
  assertEquals((await benchMaintenance(ARGS, cached)).text.includes("Warning"), false);
});

Deno.test("bench:maintenance goes on with the cold sessions that wait, and sends the warm ones anew", async () => {
  await using around = await measuringOverHttp({
    profile: "anthropic-5m",
    // One that would rather read than answer: a call in its reply wants no answer afterwards.
    model: () => ({
      tool_calls: [{
        type: "function",
        function: { name: "read_file", arguments: '{"path": "notes/1.txt"}' },
      }],
    }),
  });
  const args = [...PAID, "--tokens", "20000"];
  // The cold ones and the first warm one are sent, and it can't be resumed.
  around.faults.push(null, null, null, { type: "error", status: 400 });
  await assertRejects(() => benchMaintenance(args, around), ModelError);
  await around.clock.wait(HOUR);
  const { text } = await benchMaintenance(args, around);
  assertMatch(text, /warm, whole +0s .*\nwarm, pruned +0s .*\ncold, whole +2h .*\ncold, pruned +2h /);
  const sent = around.requests.filter(({ status }) => status === 200);
  const first = "Before we go on:";
  assertEquals(lastWords(sent).map((words) => words.startsWith(first)), [
    ...[true, true, true], // the cold ones and a warm one
    ...[true, false, true, false], // the warm ones anew
    ...[false, false],
  ]);
  // No two sessions share a prefix.
  assertEquals(new Set(sent.map(({ messages }) => contentText(messages[0]?.content))).size, 4);
  assertEquals((await benchMaintenance(args, around)).text, text);
  assertEquals(around.requests.length, sent.length + 1);
});

Deno.test("bench:maintenance stops at its budget with what it has", async () => {
  await using around = await measuring();
  const { text, stopped } = await benchMaintenance([...ARGS, "--budget", "0.4"], around);
  assertMatch(
    stopped ?? "",
    /^Stopped: the next request could cost \$0\.0\d+, and of the budget of \$0\.4000/,
  );
  assertMatch(text, /^resumed.*\nwarm, whole .*\nwarm, pruned .*\n\nWarm, the pruned session missed/);
  assertMatch((await benchMaintenance([...ARGS, "--budget", "1"], around)).text, /cold, pruned/);
});
