import { assertEquals } from "@std/assert";
import { LARGEST_PACKAGE } from "./plans.ts";
import { readResult } from "./results.ts";
import type { CallArguments, RehearsalTurn, WantedCall } from "./turn.ts";

/** A turn with these calls made: tool, arguments, text of the result. All tools are offered, with no options. */
function turn(...made: readonly [tool: string, args: CallArguments, text: string][]): RehearsalTurn {
  return {
    question: "Which package has the most lines of code?",
    calls: made.map(([tool, args, text]) => ({ tool, args, ...readResult(text) })),
    earlier: [],
    said: [],
    offers: (_, argument) => argument === undefined,
  };
}

const counting = (path: string) => ({ pattern: "^", path, output: "count" });

/** The paths of the calls that the rule at this position wants. */
function wanted(rule: number, made: RehearsalTurn): string[] {
  return LARGEST_PACKAGE.rules[rule]?.wants(made).map(({ tool, args }: WantedCall) =>
    `${tool} ${args.path}`
  ) ?? [];
}

Deno.test("LARGEST_PACKAGE suits questions about the size of packages", () => {
  const suits = [
    "Which package of this repository has the most lines of code, and which files does it consist of?",
    "What is the largest folder?",
    "How many lines does each crate have?",
  ];
  const others = [
    "Where is the package published?",
    "Which function has the most lines?",
    "How many packages are there?",
  ];
  assertEquals([...suits, ...others].map(LARGEST_PACKAGE.suits), [true, true, true, false, false, false]);
});

Deno.test("LARGEST_PACKAGE looks into the manifests and folders that the listing shows", () => {
  const listing = "entries in .: 5\nREADME.md\t9\ndeno.json\t20\npackage.json\t30\npackages/\nsrc/";
  assertEquals(wanted(1, turn(["list_files", {}, listing])), [
    "read_file deno.json",
    "read_file package.json",
    "list_files packages",
  ]);
  assertEquals(wanted(1, turn(["list_files", {}, "src/"])), []);
});

Deno.test("LARGEST_PACKAGE counts the packages that manifests name, in every common form", () => {
  const top: [string, CallArguments, string] = ["list_files", {}, "crates/\ndocs/\npackages/\nsrc/"];
  const listings: [string, CallArguments, string][] = [
    top,
    ["list_files", { path: "packages" }, "packages/a/\npackages/b/\npackages/README.md\t5"],
    ["list_files", { path: "crates" }, "x/\ny/"],
  ];
  const named = (path: string, text: string) =>
    wanted(2, turn(...listings, ["read_file", { path }, `lines 1-9 of 9\n${text}`]));
  const both = ["search_files packages/a", "search_files packages/b"];
  assertEquals(named("deno.json", '{ "workspace": ["./packages/b", "packages/a/"] }'), [...both].reverse());
  assertEquals(named("deno.json", '{ "workspace": { "members": ["./packages/a"] } }'), both.slice(0, 1));
  assertEquals(named("package.json", '{ "name": "x", "workspaces": ["packages/*"] }'), both);
  assertEquals(named("package.json", '{ "workspaces": { "packages": ["packages/*"] } }'), both);
  assertEquals(named("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n  - docs # prose\n"), [
    ...both,
    "search_files docs",
  ]);
  assertEquals(named("Cargo.toml", '[workspace]\nmembers = [\n  "crates/x",\n  "crates/y",\n]'), [
    "search_files crates/x",
    "search_files crates/y",
  ]);
  // Without members: by convention, then the folders at the top.
  assertEquals(named("package.json", '{ "name": "x" }'), [
    ...both,
    "search_files crates/x",
    "search_files crates/y",
  ]);
  assertEquals(wanted(2, turn(["list_files", {}, "docs/\nsrc/"])), ["search_files docs", "search_files src"]);
});

Deno.test("LARGEST_PACKAGE opens the longest files of the largest package and answers with all of them", () => {
  const counted: [string, CallArguments, string][] = [
    [
      "search_files",
      counting("packages/a"),
      "matching lines: 930; files\npackages/a/x.ts:10\npackages/a/notes.md:920",
    ],
    [
      "search_files",
      counting("packages/b"),
      "matching lines: 64; files with matches: 3\nmod.ts:4\nbig.ts:40\nmid.ts:20",
    ],
    ["search_files", counting("packages/c"), ""],
    [
      "search_files",
      counting("packages/d"),
      "matching lines: 9; only the first 1 follow, narrow it\npackages/d/y.ts:3",
    ],
  ];
  assertEquals(wanted(3, turn(...counted)), [
    "read_file packages/b/big.ts",
    "read_file packages/b/mid.ts",
    "read_file packages/b/mod.ts",
  ]);
  const reads: [string, CallArguments, string][] = [
    ["read_file", { path: "packages/b/big.ts" }, "lines 1-20 of 40\n…"],
    ["read_file", { path: "packages/b/mod.ts" }, "lines 1-4 of 4\n…"],
  ];
  assertEquals(
    LARGEST_PACKAGE.answer(turn(...counted, ...reads)),
    `As far as I saw: packages/b is the package with the most lines of code, 64 lines in 3 files.

Its files:
- packages/b/big.ts: 40 lines
- packages/b/mid.ts: 20 lines
- packages/b/mod.ts: 4 lines

All that I counted: packages/b 64, packages/a 10, packages/d 3.

I opened 2 of them; their lengths agree with the count.

I counted every line of source files, told by the endings of their names, with tests, comments and empty lines.

Of the count of packages/c I saw nothing.
Of the count of packages/d I saw only a part.`,
  );
});

Deno.test("LARGEST_PACKAGE says where what it read disagrees, and where it could count nothing", () => {
  const answer = LARGEST_PACKAGE.answer(turn(
    ["search_files", counting("src"), "src/a.py:7"],
    ["read_file", { path: "src/a.py" }, "lines 1-8 of 8\n…"],
  ));
  assertEquals(answer.split("\n\n")[3], "src/a.py says that it has 8 lines.");
  assertEquals(
    LARGEST_PACKAGE.answer(turn(["list_files", {}, "src/"])),
    "I could not count the lines of any package with the tools and results that I have.",
  );
});

Deno.test("LARGEST_PACKAGE counts and lists no more than a readable number, and says so", () => {
  const folders = Array.from({ length: 42 }, (_, at) => `f${at}`);
  const listed: [string, CallArguments, string] = [
    "list_files",
    {},
    folders.map((name) => `${name}/`).join("\n"),
  ];
  assertEquals(wanted(2, turn(listed)).length, 40);
  const files = Array.from({ length: 203 }, (_, at) => `f0/${at}.ts:1`).join("\n");
  const paragraphs = LARGEST_PACKAGE.answer(turn(listed, ["search_files", counting("f0"), files])).split(
    "\n\n",
  );
  assertEquals(paragraphs[1]?.split("\n").at(-1), "- and 3 shorter files");
  assertEquals(paragraphs.at(-1), "I counted only the first 40 packages; there are 2 more.");
});
