import { assert, assertAlmostEquals, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { contentText, estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { type Profile, profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { applyElisions } from "@tare/prune";
import {
  type CallPolicy,
  compaction,
  type MakePolicy,
  play,
  readRecording,
  type RecordedUsage,
  type Recording,
  REFETCH_TOKENS,
  repair,
  resend,
} from "@tare/simulator/economy";
import { loadTokenizer } from "@tare/tiktoken";
import { halfOf } from "../scripts/savings/half_of.ts";
import { measureEconomy } from "../scripts/savings/measure_economy.ts";
import { optimum } from "../scripts/savings/policies/optimum.ts";
import { plot } from "../scripts/savings/plot.ts";
import { POLICIES } from "../scripts/savings/policies/policies.ts";
import { loadData } from "../scripts/savings/load_data.ts";
import { billOf, reportsCacheReads } from "../scripts/savings/real_bill.ts";
import { needs, RECORDINGS } from "./needs.ts";
import { RECORDED } from "./recorded_sessions.ts";
import { generateWorkload, withHugeResult } from "./workload.ts";

const countTokens = estimateTokens;

const TOOL: ToolDefinition = { type: "function", function: { name: "read" } };

function line(messages: readonly object[], fields: object = {}): string {
  return JSON.stringify({ id: "s", tools: [TOOL], messages, ...fields });
}

function round(id: string, result: string, args = "{}"): (Message & { readonly ts?: number })[] {
  return [
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: args } }],
    },
    { role: "tool", tool_call_id: id, content: result },
  ];
}

Deno.test("readRecording() refuses invalid recordings, in one sentence", () => {
  const user = { role: "user", content: "Hi." };
  const cases: [string, string][] = [
    ["{", "JSON"],
    ["{}", "it has no messages"],
    [JSON.stringify({ messages: [user], tools: [] }), "it has no tools"],
    [line([]), "it has no user message"],
    [line(round("1", "x")), "it has no user message"],
    [line([user, { role: "robot", content: "x" }]), "message 1 has the unknown role robot"],
    [line([user, { role: "tool", tool_call_id: "1", content: "x" }]), "message 1 answers no call"],
    [line([user, ...round("1", "x").slice(0, 1), user]), "call 1 has no answer before message 2"],
  ];
  for (const [text, why] of cases) assertThrows(() => readRecording(text), Error, why);
});

Deno.test("readRecording() removes the notes and finds the calls with their times", () => {
  const [call, result] = round("1", "x");
  const [other, stated] = round("2", "Exit code: 0\nOutput:\nError: none.");
  const { messages, calls, usage } = readRecording(line([
    { role: "user", content: "Hi.", ts: 5_000, meta: true },
    { ...call, usage: { input: 3, cache_read: 4, cache_write: 5, output: 6 }, ts: 6_000 },
    { ...result, error: true },
    other!,
    stated!,
    ...round("3", "Error: who knows."),
    { role: "assistant", content: "Done." },
  ]));
  assertEquals(messages[0], { role: "user", content: "Hi." });
  assertEquals(calls, [1, 3, 5, 7].map((messages, at) => ({ messages, timeMs: 5_000 + 20_000 * at })));
  const results = messages.filter((message) => message.role === "tool");
  assertEquals(results.map(({ failed }) => failed), [true, false, undefined]);
  assertEquals(usage.get(1)?.cache_read, 4);
});

Deno.test("loadData() skips bad lines, counts them and reports why", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const good = line([{ role: "user", content: "Hi." }, { role: "assistant", content: "Hello." }]);
    await Deno.writeTextFile(`${folder}/a.jsonl`, `${good}\nnonsense\n\n${line([])}\n${good}\n`);
    const warnings: string[] = [];
    const [data] = loadData(folder, { warn: (sentence) => warnings.push(sentence) });
    assertEquals([data?.name, data?.recordings.length, data?.skipped], ["a", 2, 2]);
    assertStringIncludes(warnings[0] ?? "", "Skipped a.jsonl:2: ");
    assertEquals(warnings[1], "Skipped a.jsonl:4: it has no user message");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const PLAY = {
  profile: { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 } satisfies Profile,
  windowTokens: 1e6,
  countTokens,
  recall: false,
  refetches: false,
  bare: true,
};

function forgetful(): CallPolicy {
  return { view: ({ messages, tools }) => ({ messages: messages.slice(-1), tools }) };
}

Deno.test("play() prices each call by its cache reads", async () => {
  const recording = readRecording(line([
    { role: "user", content: "x".repeat(400) },
    ...round("1", "y".repeat(4_000)),
    { role: "assistant", content: "Done." },
  ]));
  const { cost, promptTokens, cachedTokens, epochs } = await play(recording, resend, PLAY);
  const first = estimateTokens(JSON.stringify(TOOL)) + 4 + 100;
  const second = first + 4 + 1 + 1 + 4 + 1_000;
  assertEquals([promptTokens, cachedTokens, epochs], [first + second, first, 1]);
  assertEquals(cost, promptCost(PLAY.profile, { promptTokens: first + second, cachedTokens: first }));
});

Deno.test("play() pays for the fixed prefix, the recall tool and the output unless it is bare", async () => {
  const messages = [{ role: "user", content: "Hi." }, {
    role: "assistant",
    content: "Hello.",
    usage: { output: 100 },
  }];
  const recording = readRecording(line(messages, { recorded_fixed_prefix_tokens: 30_000 }));
  const bare = await play(recording, resend, PLAY);
  const full = await play(recording, resend, { ...PLAY, bare: false });
  const recall = await play(recording, resend, { ...PLAY, bare: false, recall: true });
  const tools = estimateTokens(JSON.stringify(TOOL));
  assertEquals(full.promptTokens, bare.promptTokens - tools + 30_000);
  assertEquals(full.cost, full.promptTokens + 8 * 100);
  assert(recall.promptTokens > full.promptTokens);
});

Deno.test("play() counts content that a call needs, that appeared earlier and that isn't visible", async () => {
  const recording = readRecording(line([
    { role: "user", content: "Look at firstName in file.ts, and explain it in plain words." },
    ...round("1", "1\tconst thirdName = unknown;", '{"q":"firstName unheardOf plainwords"}'),
    ...round("2", "x", '{"old_string":"const   thirdName = unknown;","new_string":""}'),
    { role: "assistant", content: "Done." },
  ]));
  // The first call sees the user's message; the second only its result, which contains the old text.
  assertEquals((await play(recording, forgetful, PLAY)).refetches, 0);
  const blind: MakePolicy = () => ({
    view: ({ messages, tools }) => ({ messages: messages.slice(0, 1), tools }),
  });
  const { refetches, edits, editsWithLostText, userShareGone } = await play(recording, blind, PLAY);
  assertEquals([refetches, edits, editsWithLostText, userShareGone], [1, 1, 1, 0]);
  assertEquals((await play(recording, forgetful, PLAY)).userShareGone, 2);
});

Deno.test("play() doesn't count a name in a placeholder's list as visible", async () => {
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", "src/somewhere/deep.ts"),
    ...round("2", "x", '{"path":"src/somewhere/deep.ts"}'),
    { role: "assistant", content: "Done." },
  ]));
  const listing: MakePolicy = () => ({
    view: ({ messages, tools }) => ({
      messages: messages.map((message) =>
        message.role === "tool"
          ? { ...message, content: "[elided: read result, 21 bytes]\nIt names: src/somewhere/deep.ts" }
          : message
      ),
      tools,
    }),
  });
  assertEquals((await play(recording, listing, PLAY)).refetches, 1);
});

function showing(show: (text: string, place: number) => string): MakePolicy {
  return () => ({
    view({ messages, tools }) {
      let place = 0;
      return {
        messages: messages.map((message) =>
          message.role === "tool" ? { ...message, content: show(String(message.content), place++) } : message
        ),
        tools,
      };
    },
  });
}

Deno.test("play() counts a name as visible if its parts are, unless it must be visible whole", async () => {
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", "src/somewhere/deep.ts"),
    ...round("2", "x", '{"path":"src/somewhere/deep.ts"}'),
    { role: "assistant", content: "Done." },
  ]));
  const refetches = async (text: string, namesVisible?: "whole" | "parts") =>
    (await play(recording, showing(() => text), { ...PLAY, ...(namesVisible && { namesVisible }) }))
      .refetches;
  const grouped = "src/somewhere:\n  deep.ts";
  assertEquals(await refetches(grouped), 0);
  assertEquals(await refetches(grouped, "whole"), 1);
  assertEquals(await refetches("src/somewhere/deep.ts", "whole"), 0);
  // A part must be a whole word, and a list of evicted content doesn't count.
  assertEquals(await refetches("src/somewhere:\n  deeper.ts"), 1);
  assertEquals(await refetches("src/somewhere\n[elided: read result, 21 bytes]\nIt names: deep.ts"), 1);
});

Deno.test("play() counts a reference's target as visible at its place, and nothing that the reference quotes", async () => {
  const text = "     1→const needed = true;\n     2→const other = needed;";
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", `src/somewhere/deep.ts\n${text}`),
    ...round("2", text),
    ...round("3", "x", '{"path":"src/somewhere/deep.ts"}'),
    ...round("4", "x", '{"old_string":"const needed = true;","new_string":""}'),
    { role: "assistant", content: "Done." },
  ]));
  const label =
    '[lines 1-2 unchanged, as in src/somewhere/deep.ts above: "const needed = true;" to "const other = needed;"]';
  const referring = (source: (text: string) => string) =>
    showing((text, place) => place === 0 ? source(text) : place === 1 ? label : text);
  const visible = await play(recording, referring((text) => text), PLAY);
  assertEquals([visible.refetches, visible.edits, visible.editsWithLostText], [0, 1, 0]);
  const dangling = await play(recording, referring(() => "[elided: read result, 80 bytes]"), PLAY);
  assertEquals([dangling.refetches, dangling.edits, dangling.editsWithLostText], [2, 1, 1]);
});

Deno.test("play() finds an edit's lines in a read with only some line numbers", async () => {
  const lines = Array.from({ length: 12 }, (_, at) => `  const value${at + 1} = measured(${at});`);
  const numbered = (at: number) => `${String(at + 1).padStart(6)}\t${lines[at]}`;
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", lines.map((_, at) => numbered(at)).join("\n")),
    ...round("2", "x", JSON.stringify({ old_string: lines.slice(2, 11).join("\n"), new_string: "" })),
    { role: "assistant", content: "Done." },
  ]));
  const sparse = lines.map((text, at) => at === 0 || at === 9 ? numbered(at) : text);
  const lost = async (visible: readonly string[]) =>
    (await play(recording, showing((text, place) => place === 0 ? visible.join("\n") : text), PLAY))
      .editsWithLostText;
  assertEquals(await lost(sparse), 0);
  // After the gap the next line has its number.
  assertEquals(await lost([...sparse.slice(0, 4), numbered(5), ...sparse.slice(6)]), 1);
});

Deno.test("play() searches the old lines of a patch that moves a file", async () => {
  const patch =
    "*** Begin Patch\n*** Update File: a.ts\n*** Move to: b.ts\n@@\n-const needed = true;\n+const needed = 1;\n*** End Patch";
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", "const needed = true;"),
    ...round("2", "x", JSON.stringify({ input: patch })),
    { role: "assistant", content: "Done." },
  ]));
  const { edits, editsWithLostText } = await play(recording, showing(() => "[elided: read result]"), PLAY);
  assertEquals([edits, editsWithLostText], [1, 1]);
});

Deno.test("play() makes a call recall missing content first, and the policy continues with that", async () => {
  const recording = readRecording(line([
    { role: "user", content: "Go." },
    ...round("1", `let lostName = 1; ${"z".repeat(400)}`),
    ...round("2", "x"),
    ...round("3", "x", '{"q":"lostName"}'),
    { role: "assistant", content: "Done." },
  ]));
  const seen: number[] = [];
  const lastTwo: MakePolicy = () => ({
    view({ messages, tools }) {
      seen.push(messages.length);
      return { messages: messages.slice(-2), tools };
    },
  });
  const { refetches, refetchCost } = await play(recording, lastTwo, { ...PLAY, refetches: true });
  assertEquals([refetches, seen], [1, [1, 3, 5, 7, 9]]);
  assert(refetchCost > 100);
});

Deno.test("repair() returns 7,000 tokens at most, including the needed ones", async () => {
  const lost = { lines: new Set(["const needed = true;"]), names: new Set<string>() };
  const bearer: Message = {
    role: "tool",
    tool_call_id: "1",
    content: `${"word ".repeat(20_000)}\nconst needed = true;`,
  };
  const [call, result] = await repair([bearer], { lost, number: 1, countTokens });
  assertEquals(call?.role, "assistant");
  const tokens = countTokens(String(result?.content));
  assert(tokens > 0.9 * REFETCH_TOKENS && tokens <= 1.01 * REFETCH_TOKENS);
  assertStringIncludes(String(result?.content), "const needed = true;");
});

Deno.test("compaction() continues with a summary, the question and the last step, and pays for the summary", async () => {
  const steps = Array.from({ length: 12 }, (_, at) => round(`${at}`, "z".repeat(4_000))).flat();
  const recording = readRecording(
    line([{ role: "user", content: "Go." }, ...steps, { role: "assistant", content: "Done." }]),
  );
  const options = { ...PLAY, windowTokens: 8_000, bare: false };
  const cached = await play(recording, compaction("cached"), options);
  const cold = await play(recording, compaction("cold"), options);
  assert(cached.epochs > 1 && cached.maxPromptTokens <= 0.9 * 8_000);
  assert(cold.cost > cached.cost);
  assertEquals(cached.userShareGone, 0);
});

Deno.test("halfOf() divides groups about evenly, always the same way", () => {
  const groups = Array.from({ length: 1_000 }, (_, at) => `group-${at}`);
  const inA = groups.filter((group) => halfOf(group) === "A").length;
  assert(inA > 450 && inA < 550);
  assertEquals([halfOf("group-0"), halfOf("group-1")], [halfOf("group-0"), halfOf("group-1")]);
});

function sized(rounds: number): Recording {
  const tokens = [900, 400, 2_000, 300, 1_200, 700, 1_500, 400, 800, 1_000];
  return readRecording(line([
    { role: "user", content: "Go." },
    ...Array.from({ length: rounds }, (_, at) => round(`${at}`, "z".repeat(4 * (tokens[at % 10] ?? 1))))
      .flat(),
    { role: "assistant", content: "Done." },
  ]));
}

Deno.test("optimum() is the cheapest choice of calls, and equals the cost of replaying it", async () => {
  const recording = sized(10);
  for (const name of ["anthropic-5m", "openai", "deepseek", "none"]) {
    for (const windowTokens of [6_000, 1e6]) {
      const profile = { ...profileNamed(name), minTokens: 256, blockTokens: 64 };
      const options = { profile, countTokens, windowTokens, protectTokens: 2_000 };
      const { cost, rewrites, removable } = await optimum(recording, options);
      const costAt = async (times: ReadonlySet<number>) => {
        let call = -1;
        let gone = 0;
        const policy: CallPolicy = {
          view({ messages, tools }) {
            call++;
            if (times.has(call)) gone = removable.filter(({ from }) => from <= call).length;
            return {
              messages: applyElisions(messages, removable.slice(0, gone).map(({ elision }) => elision)),
              tools,
            };
          },
        };
        return (await play(recording, () => policy, { ...PLAY, profile, windowTokens })).cost;
      };
      assertAlmostEquals(await costAt(new Set(rewrites)), cost, 1e-6);
      if (windowTokens < 1e6) continue;
      let cheapest = Infinity;
      for (let choice = 0; choice < 2 ** recording.calls.length; choice++) {
        const times = new Set(recording.calls.keys().filter((call) => choice & (1 << call)));
        cheapest = Math.min(cheapest, await costAt(times));
      }
      assertAlmostEquals(cost, cheapest, 1e-6);
    }
  }
});

Deno.test("measureEconomy() plays every policy, loses no user text by retention and never much money", async () => {
  const recordings = generateWorkload().slice(0, 4);
  assertEquals(
    recordings.map(({ id, calls }) => [id, calls.length]),
    generateWorkload().slice(0, 4).map(({ id, calls }) => [id, calls.length]),
  );
  for (const name of ["anthropic-5m", "none"]) {
    const rows = await measureEconomy([{ name: "generated", recordings }], {
      profile: profileNamed(name),
      policies: Object.keys(POLICIES),
      countTokens,
      bare: true,
    });
    const by = (policy: string) => rows.find((row) => row.policy === policy)!;
    assertEquals([by("resend").cost0, by("resend").cost3, by("resend").refetchesPer100], [1, 1, 0]);
    assert(by("optimum").cost0 <= by("planner-age").cost0);
    assertEquals(by("planner").userTokensGone, 0);
    assert(by("planner").worst <= 1.05);
    assert(by("planner").cost3 < 1);
  }
});

Deno.test("measureEconomy() has separate rows for sessions over the window", async () => {
  const recordings = generateWorkload().slice(0, 4);
  const rows = await measureEconomy([{ name: "generated", recordings }], {
    profile: profileNamed("openai"),
    policies: ["compaction"],
    countTokens,
    windowTokens: 30_000,
  });
  assertEquals(rows.map(({ data }) => data), ["generated (fits)", "generated (over)", "generated"]);
  assertEquals(rows.map(({ sessions, calls }) => [sessions, calls]), [[1, 10], [3, 204], [4, 214]]);
});

Deno.test("measureEconomy() reports sessions without a refetch, and charges the worst session its refetches", async () => {
  const session = (id: string, rounds: number, needed: string) =>
    readRecording(line([
      { role: "user", content: "Go." },
      ...round("first", "let neededName = 1;"),
      ...Array.from({ length: rounds }, (_, at) => round(`${at}`, "x")).flat(),
      ...round("last", "x", JSON.stringify({ q: needed })),
      { role: "assistant", content: "Done." },
    ], { id }));
  const recordings = [
    session("a", 1, "neededName"),
    session("b", 1, "nothing"),
    session("c", 30, "neededName"),
  ];
  const rows = await measureEconomy([{ name: "made", recordings }], {
    profile: profileNamed("openai"),
    policies: ["resend", "forgetful"],
    named: (name) => ({ make: name === "resend" ? resend : forgetful, recall: false }),
    countTokens,
  });
  assertEquals(rows.map(({ data, policy, unaffected }) => [data, policy, unaffected]), [
    ["made", "resend", 1],
    ["made", "forgetful", 1 / 3],
  ]);
  const [resent, lossy] = rows;
  assertEquals([resent!.worst, resent!.bill], [1, undefined]);
  const [only] = await measureEconomy([{ name: "made", recordings: [recordings[0]!] }], {
    profile: profileNamed("openai"),
    policies: ["forgetful"],
    named: (name) => ({ make: name === "resend" ? resend : forgetful, recall: false }),
    countTokens,
  });
  assert(only!.cost3 > only!.cost0);
  assertEquals([only!.worst, lossy!.worst], [only!.cost3, only!.cost3]);
});

Deno.test("planner policies: truncation has its defaults, and variants differ as their names state", async () => {
  const recording = withHugeResult(generateWorkload()[0]!);
  const most = async (policy: string) =>
    (await play(recording, POLICIES[policy]!, { ...PLAY, recall: true })).maxPromptTokens;
  assert(await most("planner") < 30_000);
  assert(await most("planner-untruncated") > 100_000);
  assert(await most("planner-age") > 100_000);
});

Deno.test("plot() draws a point for each policy", async () => {
  const rows = await measureEconomy([{ name: "generated", recordings: generateWorkload().slice(0, 1) }], {
    profile: profileNamed("openai"),
    policies: ["resend", "mask-10"],
    countTokens,
  });
  const svg = plot(rows);
  assertEquals(svg.match(/<circle /g)?.length, 2);
  assertStringIncludes(svg, ">mask-10</text>");
});

const PREFIX = 30_000;
const SHARED_PREFIX = 12_000;

/** Returns a session as a provider with this tokenizer and cache lifetime bills a client that resends everything. */
function billed(recording: Recording, { scale, ttlMs }: { readonly scale: number; readonly ttlMs: number }) {
  const usage = new Map<number, RecordedUsage>();
  const sizes = recording.messages.map((message, at) =>
    Math.round(scale * countTokens(contentText(message.content))) +
    // Replies contain calls and reasoning.
    (message.role === "assistant" ? 100 + 300 * (at % 3) : 0)
  );
  let [before, beforeMs] = [SHARED_PREFIX, -Infinity];
  for (const { messages: at, timeMs } of recording.calls) {
    const prompt = PREFIX + sizes.slice(0, at).reduce((sum, size) => sum + size, 0);
    const cache_read = timeMs - beforeMs <= ttlMs ? before : SHARED_PREFIX;
    usage.set(at, { input: 0, cache_read, cache_write: prompt - cache_read, output: sizes[at]! });
    [before, beforeMs] = [prompt, timeMs];
  }
  return { ...recording, usage, model: "claude-opus-4-6" };
}

Deno.test("billOf() finds the prompts and the cache that usage reveals: resending costs as much as the bill", async () => {
  const profile = profileNamed("anthropic-5m");
  for (const recording of generateWorkload()) {
    for (const scale of [0.8, 1, 1.5]) {
      for (const ttlMs of [profile.ttlMs, 3_600_000]) {
        const bill = billOf(billed(recording, { scale, ttlMs }), { profile, countTokens })!;
        const pauses = recording.calls.map(({ timeMs }, at) =>
          timeMs - (recording.calls[at - 1]?.timeMs ?? 0)
        );
        const lastsAnHour = ttlMs > profile.ttlMs && pauses.slice(1).some((pause) => pause > profile.ttlMs);
        assertEquals(bill.options.profile.name, lastsAnHour ? "anthropic-1h" : "anthropic-5m");
        const options = { ...bill.options, recall: false, refetches: false };
        const { cost } = await play(bill.recording, resend, options);
        assertAlmostEquals(cost / bill.cost, 1, 0.03, `${recording.id}, ${scale}, ${ttlMs}`);
      }
    }
    assertEquals(billOf({ ...recording, model: "claude-opus-4-6" }, { profile, countTokens }), undefined);
    const other = { profile: profileNamed("openai"), countTokens };
    assertEquals(billOf(billed(recording, { scale: 1, ttlMs: 0 }), other), undefined);
  }
});

Deno.test({
  ...needs(RECORDINGS, "billOf() reproduces recorded bills of clients that did not compact"),
  async fn() {
    const { count: countTokens } = await loadTokenizer();
    const tested = new Set<string>();
    for (const { recordings } of loadData(RECORDED!, { warn() {} })) {
      for (const recording of recordings.filter(reportsCacheReads)) {
        for (const [name, within] of [["anthropic-5m", 0.02], ["openai", 0.05]] as const) {
          const bill = billOf(recording, { profile: profileNamed(name), countTokens });
          if (!bill || recording.compacted.length > 0) continue;
          const { cost } = await play(bill.recording, resend, {
            ...bill.options,
            recall: false,
            refetches: false,
          });
          assertAlmostEquals(cost / bill.cost, 1, within, recording.id);
          tested.add(name);
        }
      }
    }
    assertEquals(tested.size, 2);
  },
});
