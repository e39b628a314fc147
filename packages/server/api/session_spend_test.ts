import { assertAlmostEquals, assertEquals } from "@std/assert";
import { type PromptSnapshot, reportCall } from "@tare/session/internal/report";
import type { Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { reportSessionSpend } from "./session_spend.ts";

const RATES = {
  profile: profileNamed("anthropic-5m"),
  price: { input: 10, output: 20, cacheRead: 1, cacheWrite: 12.5 },
};

function callOf(
  { promptTokens = 1_000_000, cachedTokens = 0, turn = 1, number, rewritten }: {
    readonly number: number;
    readonly promptTokens?: number;
    readonly cachedTokens?: number;
    readonly turn?: number | null;
    readonly rewritten?: boolean;
  },
) {
  const rewrite = { mechanism: "planner", reason: "", removed: "", tokensBefore: 2, tokensAfter: 1 };
  return reportCall({ promptTokens, cachedTokens, outputTokens: 100_000 }, {
    ...{ number, at: `2026-01-0${number}T00:00:00.000Z`, turn, purpose: turn === null ? "title" : "turn" },
    ...{ rates: RATES, rewrites: rewritten ? [rewrite] : [] },
  });
}

const LINE = "[elided: bash result, 100 bytes; recall with ref 0123456789abcdef]";

const result = (id: string, name: string, args: object): readonly Message[] => [
  {
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
  },
  { role: "tool", tool_call_id: id, content: "x".repeat(100) },
];

Deno.test(
  "reportSessionSpend() estimates the cost of each result: as new at first, then at each call's token price",
  () => {
    const messages: readonly Message[] = [
      { role: "user", content: "Go." },
      ...result("1", "read", { file_path: "a.ts", limit: 3 }),
      ...result("2", "bash", { command: ["bash", "-lc", "ls -l"] }),
      ...result("3", "read", { file_path: "a.ts" }),
    ];
    const view = {
      messages: [
        ...messages.slice(0, 4),
        { role: "tool", tool_call_id: "2", content: LINE },
        ...messages.slice(5),
      ] as Message[],
      tools: [],
      places: messages.map((_, at) => at),
    };
    const seen: PromptSnapshot = {
      history: { messages, tools: [] },
      view,
      pins: [],
      countTokens: (text) => text.length,
    };
    // The first of four calls contained no result; the last contained all, and half of the earlier ones were cold.
    const calls = [
      callOf({ number: 1, promptTokens: 100 }),
      callOf({ number: 2, promptTokens: 200, cachedTokens: 100 }),
      callOf({ number: 3, promptTokens: 300, cachedTokens: 200, turn: 2 }),
      callOf({ number: 4, promptTokens: 400, cachedTokens: 150, turn: 2, rewritten: true }),
      callOf({ number: 5, turn: null }),
    ];
    const spend = reportSessionSpend(seen, { calls, isAnswered: false });
    const tokens = spend.results.find(({ place }) => place === 2)!.tokens;
    assertEquals(
      spend.results.map(({ place, tool, subject, calls, state }) => [place, tool, subject, calls, state]),
      [
        [2, "read", "a.ts", 3, "visible"],
        [4, "bash", "ls -l", 2, "replaced"],
        [6, "read", "a.ts", 1, "visible"],
      ],
    );
    const units = spend.results.map(({ costUnits }) => costUnits);
    assertAlmostEquals(units[0]!, tokens * (1.25 + 0.1 + (0.1 + 1.25) / 2));
    const { tokens: lineTokens } = spend.results[1]!;
    assertAlmostEquals(units[1]!, tokens * 1.25 + lineTokens * (0.1 + 1.25) / 2);
    assertAlmostEquals(units[2]!, tokens * 1.25);
    assertAlmostEquals(spend.results[0]!.usd, units[0]! * 10 / 1e6);
    assertEquals(spend.tools.map(({ key, results }) => [key, results]), [["read", 2], ["bash", 1]]);
    assertEquals(spend.subjects.map(({ key, results, usd }) => [key, results, usd]), [
      ["a.ts", 2, spend.results[0]!.usd + spend.results[2]!.usd],
      ["ls -l", 1, spend.results[1]!.usd],
    ]);
    assertEquals(spend.turns.map(({ turn, at, calls }) => [turn, at, calls]), [
      [null, calls[4]!.at, 1],
      [2, calls[2]!.at, 2],
      [1, calls[0]!.at, 2],
    ]);
    assertEquals(spend.all.calls, 5);
    // The answer to the newest call is in the history: no call has contained later messages.
    const idle = reportSessionSpend(seen, { calls: calls.slice(0, 3), isAnswered: true });
    assertEquals(idle.results.map(({ place, calls }) => [place, calls]), [[2, 2], [4, 1]]);
    assertEquals(idle.programs, undefined);
    const totals = { programs: 2, programCalls: 5, failedProgramCalls: 1, programOmittedTokens: 300 };
    assertEquals(reportSessionSpend(seen, { calls, isAnswered: false, totals }), {
      ...spend,
      programs: { programs: 2, calls: 5, failed: 1, omittedTokens: 300 },
    });
  },
);
