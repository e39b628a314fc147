/**
 * Generates results of tools, each with a call that may return it: tables, files with and without numbers,
 * logs, JSON, terminal output. Contains no tests.
 *
 * @module
 */
import fc from "./cases.ts";

export interface ToolResult {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly text: string;
}

const word = fc.stringMatching(/^[a-zA-Zäß日][\wé-]{0,9}$/);
const cell = fc.oneof(word, fc.nat(10_000).map(String), fc.constantFrom("", "0.5", "a b", "NULL", "🎉"));
const line = fc.oneof(
  fc.array(word, { maxLength: 8 }).map((words) => words.join(" ")),
  fc.constantFrom(
    "",
    "}",
    "  return x;",
    "\t\tgo()",
    "1\tone",
    "     2\ttwo",
    "3→three",
    "4| four",
    "5: five",
    "       ",
  ),
  fc.string({ unit: "grapheme", maxLength: 30 }).map((text) => text.replaceAll("\n", " ")),
);
const start = fc.constantFrom(0, 1, 2, 7, 95, 999, 1_990, 99_998, 999_997);

function columns(rows: readonly (readonly string[])[], separator: string): string[] {
  return rows.map((row) => row.join(separator));
}

const rows = fc.tuple(
  start,
  fc.array(fc.array(cell, { minLength: 1, maxLength: 4 }), { minLength: 7, maxLength: 40 }),
)
  .map(([first, cells]) => cells.map((row, at) => [String(first + at), ...row]));

const table = fc.oneof(
  fc.tuple(rows, fc.constantFrom("\t", "|", ",", " | ", ": ", "→", "  ")).map(([all, separator]) =>
    columns(all, separator)
  ),
  fc.tuple(rows, fc.constantFrom("\t", "| ", " ")).map(([all, separator]) =>
    all.map(([id = "", ...rest]) => `${id.padStart(6)}${separator}${rest.join(separator)}`)
  ),
  rows.map((all) => ["id|name", "--+--", ...all.map((row) => ` ${row.join(" | ")}`), `(${all.length} rows)`]),
  rows.map((all) => ["+----+", ...all.map((row) => `| ${row.join(" | ")} |`), "+----+"]),
  fc.array(fc.tuple(fc.nat(99), fc.nat(99), word), { minLength: 6, maxLength: 30 }).map((all) =>
    all.map(([added, removed, path]) => `${added}\t${removed}\tsrc/${path}.ts`)
  ),
  fc.array(word, { minLength: 6, maxLength: 30 }).map((all) =>
    all.map((one, at) => `${String(at + 1).padStart(7)} ${one}`)
  ),
  fc.array(fc.nat(60), { minLength: 6, maxLength: 30 }).map((all) =>
    all.map((count, at) => `${at} ${"#".repeat(count)}`)
  ),
  fc.array(fc.array(fc.integer(), { minLength: 3, maxLength: 6 }), { minLength: 6, maxLength: 30 }).map((
    all,
  ) => all.map((numbers) => numbers.join(" "))),
  fc.array(fc.nat(999), { minLength: 6, maxLength: 40 }).map((all) =>
    all.map((value, at) => `${1980 + at}\t${value}`)
  ),
);

/** Line number formats, each with a call of such a tool. */
export const NUMBERINGS: readonly {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly number: (lines: readonly string[], first: number) => string;
}[] = [
  { tool: "Read", args: { file_path: "/p/a.ts" }, number: padded("→") },
  { tool: "Read", args: { file_path: "/p/a.ts", offset: 40 }, number: padded("\t") },
  {
    tool: "Read",
    args: { file_path: "/p/a.ts" },
    number: (lines, first) => lines.map((one, at) => `${first + at}\t${one}`).join("\n"),
  },
  {
    tool: "read",
    args: { filePath: "/p/a.ts" },
    number: (lines, first) =>
      `<path>/p/a.ts</path>\n<type>file</type>\n<content>\n${
        lines.map((one, at) => `${first + at}: ${one}`).join("\n")
      }\n\n(End of file - total 9 lines)\n</content>`,
  },
  {
    tool: "read",
    args: { filePath: "/p/a.ts" },
    number: (lines, first) =>
      `<file>\n${
        lines.map((one, at) => `${String(first + at).padStart(5, "0")}| ${one}`).join("\n")
      }\n</file>`,
  },
  {
    tool: "view",
    args: { file_path: "/p/a.ts" },
    number: (lines, first) =>
      `<file>\n${lines.map((one, at) => `${String(first + at).padStart(6)}|${one}`).join("\n")}\n</file>`,
  },
  { tool: "ReadFile", args: { path: "a.ts" }, number: padded("\t") },
  {
    tool: "str_replace_editor",
    args: { command: "view", path: "/p/a.ts" },
    number: (lines, first) =>
      `Here's the result of running \`cat -n\` on /p/a.ts:\n${padded("\t")(lines, first)}\n`,
  },
  { tool: "Bash", args: { command: "cat -n a.ts" }, number: padded("\t") },
  { tool: "bash", args: { command: "cd /p && nl -ba a.ts | sed -n '1,200p'" }, number: padded("\t") },
  { tool: "exec_command", args: { cmd: "bash -lc \"nl -ba 'a b.ts' | head -50\"" }, number: padded("\t") },
  { tool: "shell", args: { command: ["bash", "-lc", "git show HEAD:a.ts | cat -n"] }, number: padded("\t") },
  {
    tool: "run_shell_command",
    args: { command: "nl a.ts" },
    number: (lines, first) => {
      let number = first;
      return lines.map((one) => one === "" ? "       " : `${String(number++).padStart(6)}\t${one}`).join(
        "\n",
      );
    },
  },
  {
    tool: "bash",
    args: { command: "nl -ba -w 4 -s ') ' a.ts" },
    number: (lines, first) => lines.map((one, at) => `${String(first + at).padStart(4)}) ${one}`).join("\n"),
  },
];

function padded(mark: string): (lines: readonly string[], first: number) => string {
  return (lines, first) =>
    lines.map((one, at) => `${String(first + at).padStart(6)}${mark}${one}`).join("\n");
}

/** Files in the formats of known tools that number lines. */
export const numbered: fc.Arbitrary<ToolResult> = fc.record({
  how: fc.constantFrom(...NUMBERINGS),
  lines: fc.array(line, { minLength: 12, maxLength: 60 }),
  first: fc.constantFrom(1, 1, 40, 997, 99_990),
  end: fc.constantFrom("", "\n", "\n\n<system-reminder>\n  1→x\n</system-reminder>", "\nmore"),
}).map(({ how: { tool, args, number }, lines, first, end }) => ({
  tool,
  args,
  text: number(lines, first) + end,
}));

const json = fc.tuple(
  fc.oneof(
    fc.array(fc.dictionary(word, fc.oneof(cell, fc.array(cell), fc.double(), fc.constant(null))), {
      minLength: 3,
    }),
    fc.json({ maxDepth: 6 }).map((text) => JSON.parse(text)),
  ),
  fc.constantFrom(0, 1, 2, 4, "\t", "spaced", "loose"),
  fc.constantFrom("", "\n", "\r\n"),
).map(([value, how, end]) => {
  if (typeof how === "number" || how === "\t") return JSON.stringify(value, undefined, how) + end;
  const pretty = JSON.stringify(value, undefined, 1);
  return how === "spaced"
    ? pretty.replace(/\n */g, " ").replace(/([[{]) | (?=[\]}])/g, "$1") + end
    : `${pretty.replace(/: /g, " :  ")}${end}`;
});

const progress = fc.tuple(word, fc.array(fc.nat(100), { minLength: 2, maxLength: 20 }), fc.boolean()).map((
  [task, shares, sorted],
) =>
  `${
    (sorted ? shares.toSorted((a, b) => a - b) : shares).map((share) =>
      `${task}: ${share}% [${"=".repeat(share / 5)}> ]`
    ).join("\r")
  }\rdone.`
);

const log = fc.array(
  fc.oneof(
    fc.tuple(line, fc.constantFrom(1, 1, 2, 4, 9)).map(([one, times]) =>
      Array.from({ length: times }, () => one).join("\n")
    ),
    line.map((one) => `\x1b[32m${one}\x1b[0m`),
    progress,
    fc.constantFrom("(4 more lines like this)", "[compressed: JSON without spaces]", "a.ts", "12:x", "--"),
  ),
  { minLength: 3, maxLength: 25 },
).map((lines) => lines.join("\n"));

const hits = fc.array(
  fc.tuple(
    fc.constantFrom("src/a.ts", "src/b/c.ts", "C:\\x\\y.cs", "no colon", ""),
    fc.nat(300),
    line,
    fc.constantFrom(":", "-", "--"),
  ),
  { minLength: 4, maxLength: 40 },
).map((all) =>
  all.map(([path, at, text, sign]) =>
    sign === "--" ? "--" : path === "" ? `${at}:${text}` : `${path}${sign}${at}${sign}${text}`
  ).join("\n")
);

const paths = fc.tuple(
  fc.constantFrom("/srv/app/src/", "packages/core/", "C:\\work\\"),
  fc.array(fc.tuple(word, fc.constantFrom(".ts", "/", "", " copy.md")), { minLength: 4, maxLength: 40 }),
  fc.constantFrom("", "Found some files\n", "README.md\n"),
).map(([folder, names, first]) => first + names.map(([name, end]) => folder + name + end).join("\n"));

const broken = fc.tuple(
  fc.array(line, { minLength: 3, maxLength: 40 }),
  fc.constantFrom("\r", "\r\n", "mixed"),
).map(([lines, end]) =>
  end === "mixed" ? lines.map((one, at) => one + ["\n", "\r\n", "\r"][at % 3]).join("") : lines.join(end)
);

/** Calls of every kind, by known agents and others. */
const calls = fc.constantFrom<Omit<ToolResult, "text">>(
  { tool: "Bash", args: { command: "sqlite3 app.db 'select * from t'" } },
  { tool: "Bash", args: { command: "npm test" } },
  { tool: "bash", args: { command: "git clone https://example.com/a.git" } },
  { tool: "bash", args: { command: "cat -n a.tsv" } },
  { tool: "exec_command", args: { cmd: "cat package.json" } },
  { tool: "shell_command", args: { command: "git diff --numstat" } },
  { tool: "run_shell_command", args: { command: "sort x | uniq -c" } },
  { tool: "execute_command", args: { command: "rg -n foo src" } },
  { tool: "run_in_terminal", args: { command: "Get-Content a.json" } },
  { tool: "local_shell", args: { action: { type: "exec", command: ["bash", "-lc", "ls -R"] } } },
  { tool: "Read", args: { file_path: "/p/table.tsv" } },
  { tool: "read_file", args: { path: "table.tsv" } },
  { tool: "read", args: { path: "table.tsv" } },
  { tool: "Grep", args: { pattern: "foo" } },
  { tool: "Glob", args: { pattern: "**/*.ts" } },
  { tool: "mcp__files__read_text_file", args: { path: "a.json" } },
  { tool: "query", args: { sql: "select 1" } },
  { tool: "list_issues", args: { owner: "o", repo: "r" } },
  { tool: "fetch_document", args: { path: "docs/a.json" } },
  { tool: "nonsense", args: {} },
);

const texts = fc.oneof(
  fc.tuple(
    table,
    fc.constantFrom("", "\n"),
    fc.constantFrom("", "id\tname\n", "exit code 0; 99 bytes of output\n"),
  ).map(([all, end, first]) => `${first}${all.join("\n")}${end}`),
  json,
  log,
  hits,
  paths,
  broken,
);

/** Results of any tool: some with a text of that tool, most with another. */
export const anyResult: fc.Arbitrary<ToolResult> = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(calls, texts).map(([call, text]) => ({ ...call, text })) },
  { weight: 1, arbitrary: numbered },
);
