/**
 * Sessions of every kind, call by call: rewrites with their reasons, costs, and the baseline. Where behavior
 * changes on purpose, take the new lines from the failure.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { hashText } from "@tare/messages/internal";
import { run, type Session } from "./invariants_fixture_test.ts";
import type { Edit } from "./edits/edit.ts";

/** Returns pseudorandom numbers that don't depend on the tests' seed. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

const FILES = [
  "src/parseLimits.ts",
  "src/retry_policy.ts",
  "docs/limits-table.md",
  "src/http/listener_v2.ts",
];

function conversation(seed: number, steps: number, repeats = false): Message[] {
  const below = numbers(seed);
  const messages: Message[] = [{ role: "system", content: "You are careful. ".repeat(20) }];
  const text = (file: string, lines: number) =>
    Array.from(
      { length: lines },
      (_, line) => `${line + 1}\tconst value_${repeats ? line % 7 : below(40)} = ${file.length * line};`,
    ).join("\n");
  for (let step = 0; step < steps; step++) {
    const file = FILES[below(FILES.length)]!;
    if (step === 0 || below(5) === 0) {
      messages.push({
        role: "user",
        content: `Look at ${file}, and say what ${"is wrong ".repeat(below(12))}there.`,
      });
    }
    const kind = below(6);
    const [name, args, content] = kind < 3
      ? ["read_file", { path: file }, text(file, 10 + below(80))]
      : kind === 3
      ? [
        "search_files",
        { pattern: `value_${below(40)}` },
        FILES.map((path) => `${path}:${below(90)}: value_${below(40)}`).join("\n"),
      ]
      : kind === 4
      ? ["edit_file", {
        path: file,
        old_text: `value_${below(40)}`,
        new_text: "renamed_value".repeat(1 + below(9)),
      }, "Edited."]
      : [
        "shell",
        { command: "make check" },
        below(2) === 0 ? `Error: it failed\n${text(file, 30)}` : text(file, 60),
      ];
    const calls = [name, ...below(4) === 0 ? ["read_file"] : []].map((tool, at) => ({
      id: `${step}.${at}`,
      type: "function" as const,
      function: {
        name: String(tool),
        arguments: JSON.stringify(at === 0 ? args : { path: FILES[below(4)] }),
      },
    }));
    messages.push({
      role: "assistant",
      content: below(3) === 0 ? `Now ${file}. `.repeat(1 + below(9)) : null,
      tool_calls: calls,
    });
    for (const [at, { id }] of calls.entries()) {
      messages.push({
        role: "tool",
        tool_call_id: id,
        content: at === 0 ? String(content) : text(FILES[0]!, 25),
      });
    }
    if (below(4) === 0) {
      messages.push({ role: "assistant", content: `It was value_${below(40)} in ${file}.` });
    }
  }
  return messages;
}

const STEADY: Session["calls"][number] = {
  idleMs: 2_000,
  model: "m1",
  tools: 3,
  crash: "never",
  reports: true,
  asks: [],
};

/** Sessions by name, as differences from a steady one. */
const PLAYED: Readonly<
  Record<
    string,
    Partial<Session> & { readonly seed: number; readonly steps: number; readonly repeats?: boolean }
  >
> = {
  "openai": { seed: 1, steps: 90, profile: "openai" },
  "anthropic-5m": { seed: 2, steps: 80, profile: "anthropic-5m" },
  "deepseek, a small window": { seed: 3, steps: 30, profile: "deepseek", windowTokens: 6_000 },
  "openai, a tiny window": { seed: 4, steps: 24, profile: "openai", windowTokens: 1_500 },
  "none": { seed: 5, steps: 20, profile: "none" },
  "anthropic-1h, breaks": {
    ...{ seed: 6, steps: 24, profile: "anthropic-1h" },
    calls: [STEADY, STEADY, { ...STEADY, idleMs: 400_000 }, STEADY, { ...STEADY, idleMs: 10_000_000 }],
  },
  "openai, models and tools change": {
    ...{ seed: 7, steps: 24, profile: "openai" },
    calls: [STEADY, STEADY, STEADY, STEADY, STEADY, { ...STEADY, model: "m2" }, { ...STEADY, tools: 2 }],
  },
  "anthropic-5m, pins and summaries": {
    ...{ seed: 8, steps: 24, profile: "anthropic-5m", windowTokens: 6_000, summary: "works" },
    calls: [
      STEADY,
      {
        ...STEADY,
        asks: [{ at: 0.5, of: "history", wish: "retain" }, { at: 0.9, of: "history", wish: "evict" }],
      },
      STEADY,
      {
        ...STEADY,
        asks: [{ at: 0.3, of: "what left", wish: "retain" }, { at: 0.5, of: "history", wish: "nothing" }],
      },
    ],
  },
  "openai, a summary that fails, and crashes": {
    ...{ seed: 9, steps: 20, profile: "openai", windowTokens: 1_500, summary: "fails" },
    calls: [STEADY, { ...STEADY, crash: "archived" }, { ...STEADY, crash: "answered" }, {
      ...STEADY,
      reports: false,
    }],
  },
  "openai, results that repeat": { seed: 10, steps: 60, profile: "openai", repeats: true },
  "deepseek, results that repeat in a small window": {
    ...{ seed: 11, steps: 40, profile: "deepseek", windowTokens: 6_000, repeats: true },
  },
};

/** Returns JSON without the last digits of numbers, where engines differ. */
function text(value: unknown): string {
  return JSON.stringify(
    value,
    (_, inner) => typeof inner === "number" ? Number(inner.toPrecision(9)) : inner,
  );
}

async function played(name: string): Promise<readonly string[]> {
  const { seed, steps, repeats, ...given } = PLAYED[name]!;
  const session: Session = {
    ...{ profile: "openai", windowTokens: 1_000_000, summary: "none", calls: [STEADY], ...given },
    messages: conversation(seed, steps, repeats),
  };
  const lines: string[] = [];
  const digests: string[] = [];
  let cost = 0;
  for (const [at, { view, entry, newEdits, edits }] of (await run(session)).entries()) {
    cost += entry?.costUnits ?? 0;
    digests.push(
      text({ ...view, messages: view.messages.map(({ content }) => content) }),
      text({ entry, edits }),
    );
    const rewrites = newEdits.filter(({ type }) => type !== "ingest");
    if (rewrites.length === 0 || !entry) continue;
    const { decision, usage, costUnits, baselineCostUnits, uncached } = entry;
    const counted = Object.entries(Object.groupBy(rewrites, ({ type }: Edit) => type))
      .map(([type, all]) => `${all!.length} ${type}`).join(", ");
    const causes = uncached.map(({ cause, tokens }) => `${cause} ${tokens}`).join(", ");
    const why = decision
      ? `${decision.cause} rent ${Math.round(decision.carryingCost)} price ${
        Math.round(decision.rewriteCost)
      }`
      : "no price";
    lines.push(
      `${at}: ${counted}; ${why}; ${usage.promptTokens} tokens, ${causes}; ` +
        `${Math.round(costUnits)} of ${Math.round(baselineCostUnits)} units`,
    );
  }
  lines.push(
    `${digests.length / 2} calls, ${Math.round(cost)} units, ${hashText(digests.join("\n")).toString(36)}`,
  );
  return lines;
}

const RECORDED: Readonly<Record<string, readonly string[]>> = {
  "openai": [
    "40: 24 elide, 3 compact; price rent 2588 price 418; 3012 tokens, own_rewrite 3012; 3012 of 1296 units",
    "68: 16 elide; price rent 2060 price 1943; 5155 tokens, own_rewrite 3299; 3485 of 2344 units",
    "85: 8 drop, 7 elide; price rent 1382 price 1368; 4475 tokens, own_rewrite 2155; 2387 of 2256 units",
    "94: 17 drop; price rent 1513 price 1510; 2489 tokens, own_rewrite 2137; 2172 of 2420 units",
    "114 calls, 98694 units, 2dnybj7uygy",
  ],
  "anthropic-5m": [
    "54: 31 elide, 3 compact; price rent 9379 price 1033; 3786 tokens, own_rewrite 3786; 4733 of 1707 units",
    "82: 29 drop, 2 elide; price rent 3030 price 2462; 2754 tokens, own_rewrite 2545; 3202 of 1943 units",
    "107 calls, 100157 units, jqnpqi8cq1",
  ],
  "deepseek, a small window": [
    "21: 3 compact, 11 elide; window rent 0 price 1782; 2120 tokens, own_rewrite 2120; 2120 of 438 units",
    "34: 14 elide; window rent 0 price 1404; 2837 tokens, own_rewrite 2005; 2026 of 644 units",
    "36 calls, 15629 units, kqocqxtpr3",
  ],
  "openai, a tiny window": [
    "2: 2 compact, 1 elide; window rent 0 price 297; 850 tokens, own_rewrite 806, new 44; 850 of 693 units",
    "4: 1 compact, 1 elide; window rent 0 price 369; 870 tokens, own_rewrite 801, new 69; 870 of 543 units",
    "5: 2 elide; window rent 0 price 14; 677 tokens, own_rewrite 373; 403 of 450 units",
    "6: 1 elide; window rent 0 price 0; 993 tokens, own_rewrite 279, new 330; 647 of 729 units",
    "7: 2 elide; window rent 0 price 40; 1255 tokens, own_rewrite 546, new 277; 866 of 879 units",
    "9: 1 elide; window rent 0 price 108; 1072 tokens, own_rewrite 464; 525 of 425 units",
    "11: 2 elide; window rent 0 price 35; 1281 tokens, own_rewrite 250, new 199; 532 of 543 units",
    "12: 1 elide; window rent 0 price -12; 1216 tokens, own_rewrite 320; 410 of 445 units",
    "14: 2 elide; window rent 0 price 293; 1233 tokens, own_rewrite 609; 671 of 398 units",
    "15: 2 elide, 2 drop; window rent 0 price 16; 1238 tokens, own_rewrite 1019, new 11; 1051 of 540 units",
    "17: 1 elide; window rent 0 price 14; 1313 tokens, own_rewrite 295, new 74; 463 of 477 units",
    "19: 2 elide, 3 drop; window rent 0 price 71; 1208 tokens, own_rewrite 952; 978 of 544 units",
    "20: 1 elide, 1 drop; window rent 0 price -9; 1423 tokens, own_rewrite 821, new 218; 1077 of 642 units",
    "21: 1 elide; window rent 0 price -37; 1192 tokens, own_rewrite 248; 342 of 374 units",
    "23: 1 elide, 1 summarize; window rent 0 price 44; 669 tokens, own_rewrite 461; 482 of 486 units",
    "26: 1 elide; window rent 0 price 301; 1290 tokens, own_rewrite 677, new 261; 973 of 708 units",
    "28: 3 elide; window rent 0 price 29; 784 tokens, own_rewrite 400; 438 of 431 units",
    "31: 2 elide; window rent 0 price 130; 1249 tokens, own_rewrite 431, new 194; 687 of 611 units",
    "32 calls, 15347 units, 19xlfkblv7m",
  ],
  "none": [
    "1: 1 compact; price rent 0 price -183; 1241 tokens, expired 757, own_rewrite 484; 1241 of 1424 units",
    "4: 1 compact; price rent 0 price -153; 1709 tokens, expired 1660, own_rewrite 49; 1709 of 2045 units",
    "7: 1 compact; price rent 0 price -205; 1952 tokens, expired 1926, own_rewrite 26; 1952 of 2493 units",
    "12: 1 elide; price rent 0 price -455; 2679 tokens, expired 2679; 2679 of 3685 units",
    "15: 3 elide; price rent 0 price -474; 3358 tokens, expired 3358; 3358 of 4871 units",
    "18: 5 elide; price rent 0 price -1206; 2904 tokens, expired 2904; 2904 of 5674 units",
    "24 calls, 65010 units, 22yizucvydd",
  ],
  "anthropic-1h, breaks": [
    "4: 1 compact, 1 elide; price rent 46 price -932; 905 tokens, expired 905; 1810 of 2818 units",
    "9: 1 compact, 2 elide; price rent 105 price -1274; 1358 tokens, expired 1358; 2716 of 5014 units",
    "14: 5 drop; price rent 7 price -1302; 1396 tokens, expired 1396; 2792 of 6694 units",
    "24: 1 compact, 4 drop, 1 elide; price rent 20 price -4039; 1936 tokens, expired 1936; 3872 of 11840 units",
    "34 calls, 41965 units, de02540v8z",
  ],
  "openai, models and tools change": [
    "5: 2 compact; price rent 137 price -388; 1754 tokens, model_changed 1754; 1754 of 2142 units",
    "7: 1 compact; price rent 0 price -153; 2002 tokens, tools_changed 1895, new 107; 2002 of 628 units",
    "19: 8 elide; price rent 315 price -144; 1897 tokens, model_changed 1625; 1652 of 1850 units",
    "35 calls, 36239 units, xfzf7wpcuh",
  ],
  "anthropic-5m, pins and summaries": [
    "20: 3 compact, 6 elide; window rent 0 price 3528; 3455 tokens, own_rewrite 3455; 4319 of 917 units",
    "31 calls, 23106 units, t0kzt55wrn",
  ],
  "openai, a summary that fails, and crashes": [
    "7: 1 compact, 1 elide; window rent 0 price -158; 1104 tokens, own_rewrite 656; 701 of 511 units",
    "10: 2 compact, 1 summarize; window rent 0 price 670; 609 tokens, own_rewrite 609; 799 of 477 units",
    "12: 2 elide; window rent 0 price 20; 960 tokens, own_rewrite 250, new 342; 629 of 684 units",
    "14: 1 elide; window rent 0 price -38; 953 tokens, own_rewrite 505; 550 of 624 units",
    "17: 1 elide; window rent 0 price 212; 1259 tokens, own_rewrite 689, new 42; 784 of 578 units",
    "19: 1 elide; window rent 0 price -24; 1198 tokens, own_rewrite 318; 406 of 448 units",
    "21: 1 elide; window rent 0 price 360; 1279 tokens, own_rewrite 567, new 72; 703 of 356 units",
    "22: 2 elide, 1 summarize; window rent 0 price 58; 1177 tokens, own_rewrite 953; 1165 of 783 units",
    "24: 2 elide; window rent 0 price 41; 1178 tokens, own_rewrite 586; 645 of 630 units",
    "26: 1 elide; window rent 0 price 44; 988 tokens, own_rewrite 268; 340 of 313 units",
    "28 calls, 13029 units, 1p5keuhaccw",
  ],
  "openai, results that repeat": [
    "25: 3 compact, 3 elide; price rent 1793 price 1746; 2634 tokens, own_rewrite 2634; 2634 of 987 units",
    "76 calls, 44619 units, 1vzfxr0fmdf",
  ],
  "deepseek, results that repeat in a small window": [
    "38: 5 elide; window rent 0 price 1125; 4811 tokens, own_rewrite 1163; 1254 of 62 units",
    "43: 1 elide; window rent 0 price 231; 5309 tokens, own_rewrite 407, new 22; 551 of 470 units",
    "46: 3 compact, 9 elide; window rent 0 price 4114; 4339 tokens, own_rewrite 4339; 4339 of 660 units",
    "49 calls, 16587 units, 18fpz33tcv4",
  ],
};

for (const name of Object.keys(PLAYED)) {
  Deno.test(`played sessions: ${name}`, async () => {
    assertEquals(await played(name), RECORDED[name]!);
  });
}
