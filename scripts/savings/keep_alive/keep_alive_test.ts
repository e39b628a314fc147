import { assertAlmostEquals, assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { PromptUnit } from "@tare/planner/internal/parts";
import {
  type Breakpoints,
  HourCache,
  playSession,
  readRecording,
  timedSession,
  type Warmer,
} from "@tare/simulator/economy";
import { measureKeepAlive } from "./measure_keep_alive.ts";
import { RULES } from "./rules.ts";

const PROFILE = profileNamed("anthropic-5m");

type Line = readonly [second: number, role: "user" | "assistant" | "tool", prompt?: number, output?: number];

/** Three user messages, 20 minutes and an hour apart; in the second turn a tool takes seven minutes. */
const LINES: readonly Line[] = [
  [0, "user"],
  [10, "assistant", 400_000, 1_000],
  [100, "user"],
  [110, "assistant", 402_000, 1_000],
  [1_300, "user"],
  [1_310, "assistant", 410_000, 500],
  [1_720, "tool"],
  [1_730, "assistant", 420_000, 2_000],
  [5_000, "user"],
  [5_010, "assistant", 430_000, 100],
];

function recorded(id: string, lines = LINES) {
  const messages = lines.map(([second, role, input, output], at) => ({
    role,
    ts: 1_000 * second,
    content: "",
    ...(input !== undefined && { usage: { input, cache_read: 0, output } }),
    ...(lines[at + 1]?.[1] === "tool" &&
      { tool_calls: [{ id: `${at}`, type: "function", function: { name: "test", arguments: "{}" } }] }),
    ...(role === "tool" && { tool_call_id: `${at - 1}` }),
  }));
  const tools = [{ type: "function", function: { name: "test" } }];
  return readRecording(JSON.stringify({ id, tools, messages, recorded_fixed_prefix_tokens: 30_000 }));
}

function played(rule: string, { grants = true, reportsEnd = false } = {}) {
  const keepAliveRequests: string[] = [];
  const warmer = RULES[rule]!(PROFILE)();
  const noting = {
    ...warmer,
    recordKeepAlive(request: Parameters<NonNullable<Warmer["recordKeepAlive"]>>[0]) {
      keepAliveRequests.push(`${request.type} ${request.atMs / 1_000} ${Math.round(request.costUnits)}`);
      warmer.recordKeepAlive?.(request);
    },
  };
  const session = timedSession(recorded("one"), estimateTokens);
  const { cost } = playSession(session, noting, { profile: PROFILE, outputPrice: 5, grants, reportsEnd });
  return { cost: Math.round(cost), keepAliveRequests };
}

/** Written, read, written, written, written; and the output. */
const BARE = 500_000 + (40_000 + 2_500) + 512_500 + 525_000 + 537_500 + 5 * 4_600;

Deno.test("playSession() bills writes, reads and output by hand-computed numbers", () => {
  assertEquals(played("none"), { cost: BARE, keepAliveRequests: [] });
  // New tokens at twice the price; all but the last 90 minutes are read.
  const hour = 800_000 + (40_000 + 4_000) + (40_200 + 16_000) + (41_000 + 20_000) + (42_000 + 20_000) +
    23_000;
  assertEquals(played("one hour"), { cost: hour, keepAliveRequests: [] });
});

Deno.test("HourCache() bills as documented and renews an entry for its lifetime when read", () => {
  const [prompt, answer, more] = [10_000, 500, 20].map((tokens, at) => ({ hash: at, tokens }));
  const minute = 60_000;
  const cache = new HourCache(PROFILE);
  const serve = (units: readonly PromptUnit[], atMs: number, breakpoints?: Breakpoints) =>
    Object.values(cache.serve(units, atMs, breakpoints));
  // Prompt, read, written, written for an hour.
  assertEquals(serve([prompt!], 0), [10_000, 0, 10_000, 0]);
  assertEquals(serve([prompt!, answer!, more!], 4 * minute, { hourUnits: 2, markedUnits: 2 }), [
    ...[10_520, 10_000, 500, 500],
  ]);
  assertEquals(serve([prompt!, answer!, more!], 60 * minute), [10_520, 10_500, 20, 0]);
  // The content after it has expired, it hasn't.
  assertEquals(serve([prompt!, answer!, more!], 110 * minute), [10_520, 10_500, 20, 0]);
  assertEquals(serve([prompt!, answer!, more!], 171 * minute), [10_520, 0, 10_520, 0]);
});

Deno.test("playSession() sends a rule's keep-alive requests, also after the end", () => {
  const two = (from: number, price: number) => [280, 560].map((second) => `exact ${from + second} ${price}`);
  // One request bridges the seven minutes; a prompt's last token is always processed.
  const keepAliveRequests = [
    ...two(100, 40_201),
    `exact 1580 41001`,
    ...two(1_720, 42_001),
    ...two(5_000, 43_001),
  ];
  const bridged = 1.15 * 410_000;
  assertAlmostEquals(
    played("2 requests").cost,
    BARE - bridged + 2 * 40_201 + 41_001 + 2 * 42_001 + 2 * 43_001,
    2,
  );
  assertEquals(played("2 requests").keepAliveRequests, keepAliveRequests);
  assertEquals(played("2 requests", { reportsEnd: true }).keepAliveRequests, keepAliveRequests.slice(0, -2));
  // With foresight: one for the tool, four for 20 minutes, eleven for the hour.
  assertEquals(played("oracle").keepAliveRequests, [
    ...[280, 560, 840, 1_120].map((second) => `exact ${100 + second} 40201`).slice(0, 4),
    "exact 1580 41001",
    ...Array.from({ length: 11 }, (_, at) => `exact ${1_720 + 280 * (at + 1)} 42001`),
  ]);
});

Deno.test("keep-alive clock: sends nothing without a budget, and one extension covers both pauses", () => {
  // Before the first pause 5 % of 552,500 are 27,625, and a request costs 40,200. Before the second they cover one.
  const granted = played("upgrade");
  assertEquals(granted.keepAliveRequests, ["upgrade 1580 42005"]);
  // It is read after 7 and after 55 minutes: the prompt of 410,000 and the reply of 500.
  const expected = 1.15 * 410_500;
  assertAlmostEquals(granted.cost, BARE + 42_005 - 2 * expected, 2);
  const refused = played("upgrade", { grants: false });
  assertEquals(refused.keepAliveRequests[0], "upgrade 1580 41630");
  assertEquals(
    refused.keepAliveRequests.slice(1).map((request) => request.split(" ")[0]),
    Array(refused.keepAliveRequests.length - 1).fill("exact"),
  );
  assertEquals(played("exact").keepAliveRequests[0], "exact 1580 41001");
});

Deno.test("measureKeepAlive() returns a row per client and rule and for all, and shares observed extensions by client", async () => {
  const sources = [{ name: "a", recordings: [recorded("one"), recorded("two")] }, {
    name: "b",
    recordings: [recorded("three")],
  }];
  const rows = await measureKeepAlive(sources, {
    countTokens: estimateTokens,
    prunes: false,
    reportsEnd: true,
  });
  const names = Object.keys(RULES).flatMap((rule) =>
    rule === "upgrade" ? [rule, "upgrade, refused"] : [rule]
  );
  assertEquals(
    rows.map(({ rule, data }) => `${rule} ${data}`),
    names.flatMap((rule) => ["a", "b", "all"].map((data) => `${rule} ${data}`)),
  );
  const row = (rule: string, data = "all") => rows.find((one) => one.rule === rule && one.data === data)!;
  assertEquals(row("none"), {
    data: "all",
    rule: "none",
    sessions: 3,
    cost: 1,
    worst: 1,
    losing: 0,
    keepAliveRequests: 0,
  });
  assertAlmostEquals(row("upgrade").cost, played("upgrade", { reportsEnd: true }).cost / BARE, 1e-6);
  // The client's second session requests no extension after the first was refused.
  assertEquals(row("upgrade, refused", "a").cost < row("upgrade, refused", "b").cost, true);
});
