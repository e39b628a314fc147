import { assertEquals } from "@std/assert";
import { KEYWORDS } from "./demo_model.ts";
import { readResult } from "./results.ts";
import type { CallArguments, DemoTurn } from "./turn.ts";

function turn(
  question: string,
  ...made: readonly [tool: string, args: CallArguments, text: string][]
): DemoTurn {
  return {
    question,
    calls: made.map(([tool, args, text]) => ({ tool, args, ...readResult(text) })),
    earlier: [],
    texts: [],
    offers: () => true,
  };
}

function wanted(rule: number, made: DemoTurn): readonly CallArguments[] {
  return KEYWORDS.rules[rule]?.wants(made).map(({ args }) => args) ?? [];
}

const question = "Where does the gateway call fitTurns, please?";
const count = (pattern: string) => ({ pattern, output: "count" });

Deno.test("KEYWORDS searches for significant words, names first", () => {
  const words = (text: string) => wanted(1, turn(text)).map((args) => args.pattern);
  assertEquals(wanted(1, turn(question)), [
    { pattern: "fitTurns", output: "count", ignore_case: true },
    { pattern: "gateway", output: "count", ignore_case: true },
    { pattern: "call", output: "count", ignore_case: true },
  ]);
  assertEquals(words("What is the use of TARE_PORT, Überlauf, x and of TARE_port?"), [
    "TARE_port",
    "Überlauf",
  ]);
  assertEquals(words("one two alpha beta gamma delta epsilon"), ["epsilon", "alpha", "gamma", "delta"]);
  assertEquals(words("What is this?"), []);
});

const counted: [string, CallArguments, string][] = [
  ["search_files", count("fitTurns"), "matching lines: 3; files\nsrc/fit.ts:2\nsrc/loop.ts:1\ndeno.lock:9"],
  [
    "search_files",
    count("gateway"),
    "matching lines: 9; files\nREADME.md:5\ndocs/a.md:2\nsrc/gateway.ts:1\nsrc/loop.ts:1",
  ],
  ["search_files", count("call"), "matching lines: 0; files with matches: 0; files searched: 9"],
];

Deno.test("KEYWORDS searches the files with most matches, then reads around the matches", () => {
  const pattern = "fitTurns|gateway|call";
  assertEquals(wanted(2, turn(question, ...counted)), [
    { pattern, path: "src/loop.ts", ignore_case: true },
    { pattern, path: "src/fit.ts", ignore_case: true },
    { pattern, path: "README.md", ignore_case: true },
  ]);
  const found: [string, CallArguments, string][] = [
    [
      "search_files",
      { pattern, path: "src/loop.ts" },
      "matching lines: 1; files\nsrc/loop.ts:70: fitTurns(gateway)",
    ],
    [
      "search_files",
      { pattern, path: "src/fit.ts" },
      "matching lines: 2; files\nsrc/fit.ts:3: export function fitTurns",
    ],
    ["search_files", { pattern, path: "README.md" }, ""],
  ];
  assertEquals(wanted(3, turn(question, ...counted, ...found)), [
    { path: "src/loop.ts", start_line: 65, end_line: 90 },
    { path: "src/fit.ts", start_line: 1, end_line: 23 },
  ]);
});

Deno.test("KEYWORDS reads files that describe the repository if nothing matches", () => {
  const listing: [string, CallArguments, string] = [
    "list_files",
    {},
    "src/\nLICENSE\t9\nREADME.md\t9\ndeno.json\t9",
  ];
  assertEquals(wanted(3, turn("What is this?", listing)).map((args) => args.path), [
    "README.md",
    "deno.json",
  ]);
  assertEquals(wanted(3, turn("What is this?", ["list_files", {}, "a\t1"])).map((args) => args.path), ["a"]);
  assertEquals(wanted(3, turn("What is this?")), []);
});

Deno.test("KEYWORDS answers with counts, lines and read ranges", () => {
  const pattern = "fitTurns|gateway|call";
  const rows = ["first", "second", "third", "x".repeat(200)].map((text, at) =>
    `src/loop.ts:${at + 7}:   ${text} call`
  );
  const answer = KEYWORDS.answer(turn(
    question,
    ["list_files", {}, "entries in .: 3\nsrc/\nREADME.md\t9\ndeno.json\t9"],
    ...counted.slice(0, 1),
    ["search_files", count("gateway"), "matching lines: 9; only the first 1 follow, narrow it\nREADME.md:5"],
    ...counted.slice(2),
    ["search_files", { pattern, path: "src/loop.ts" }, rows.join("\n")],
    ["search_files", { pattern, path: "src/fit.ts" }, `src/fit.ts:1: ${"y".repeat(200)}`],
    ["read_file", { path: "src/loop.ts", start_line: 2 }, "lines 2-27 of 90\n\n  const a = 1;"],
    ["read_file", { path: "src/gone.ts" }, 'Cannot read "src/gone.ts": it does not exist.'],
  ));
  assertEquals(
    answer,
    `"fitTurns" occurs in 12 lines of 3 files.
"gateway" occurs in at least 5 lines of 1 file.
"call" doesn't occur in the searched files.

src/loop.ts, the first 3 of 4 lines:
- line 7: "first call"
- line 8: "second call"
- line 9: "third call"

src/fit.ts, the first 1 of 1 line:
- line 1: "${"y".repeat(160)}…"

I read lines 2 to 27 of 90 of src/loop.ts, which begin: "const a = 1;"
src/gone.ts isn't visible.

The workspace has 1 folder and 2 files at the top level.`,
  );
  assertEquals(KEYWORDS.answer(turn(question)), "I have no listing of the workspace.");
});
