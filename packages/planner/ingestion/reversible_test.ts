import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { contentText, estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { expand, type NamedText } from "../../../tests/expand_compressed.ts";
import { anyResult, numbered, NUMBERINGS, type ToolResult } from "../../../tests/tool_results.ts";

async function visibleOf({ tool, args, text }: ToolResult, { recall = true } = {}) {
  const archive = memoryArchive();
  const session = plannerSession({ profile: profileNamed("openai"), countTokens: estimateTokens, archive });
  const call = {
    id: "1",
    type: "function",
    function: { name: tool, arguments: JSON.stringify(args) },
  } as const;
  const messages: Message[] = [
    { role: "user", content: "Go." },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "1", content: text },
  ];
  const view = await session.view({ messages, tools: [] }, { nowMs: 0, recall });
  return { visible: contentText(view.messages.at(-1)!.content), archive };
}

/** Checks that the visible text contains all of an original, or states how to recall the rest. */
async function checkReversible(
  result: ToolResult,
  options: { readonly recall?: boolean } = {},
): Promise<string> {
  const { visible, archive } = await visibleOf(result, options);
  if (visible === result.text) return visible;
  assert(visible.startsWith("[compressed: "), visible);
  const { text, ref } = expand(visible);
  assertEquals(ref === undefined ? text : await archive.get(ref), result.text);
  assert(ref === undefined || options.recall !== false);
  return visible;
}

const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => line(at)).join("\n");

Deno.test("normalization: every result is rebuilt byte for byte from the visible text, or its first line names the recall", async () => {
  let compressed = 0;
  await fc.assert(
    fc.asyncProperty(anyResult, async (result) => {
      if (await checkReversible(result) !== result.text) compressed++;
      if (result.text.includes("\x1b")) await checkReversible(result, { recall: false });
    }),
    { numRuns: cases(400) },
  );
  assert(compressed > 40, `${compressed}`);
});

Deno.test("normalization: files with known line numbers lose most numbers, and are rebuilt byte for byte", async () => {
  let compressed = 0;
  await fc.assert(
    fc.asyncProperty(numbered, async (result) => {
      const visible = await checkReversible(result);
      if (visible !== result.text) compressed++;
      assert(visible === result.text || visible.startsWith("[compressed: line numbers "));
    }),
    { numRuns: cases(200) },
  );
  assert(compressed > 80, `${compressed}`);
});

Deno.test("normalization: numbered files that share blocks are rebuilt from references and the text above", async () => {
  const block = (name: string) =>
    Array.from({ length: 12 }, (_, at) => `  ${name}(${at}, "${name.repeat(9)}");`);
  const blocks = fc.array(fc.constantFrom(...["alpha", "beta", "gamma"].map(block), [""], ["", "one", ""]), {
    minLength: 2,
    maxLength: 5,
  });
  const reads = fc.array(
    fc.record({ how: fc.constantFrom(...NUMBERINGS), blocks, first: fc.constantFrom(1, 1, 37) }),
    { minLength: 2, maxLength: 4 },
  );
  let references = 0;
  await fc.assert(
    fc.asyncProperty(reads, fc.boolean(), async (reads, normalization) => {
      const session = plannerSession({
        profile: profileNamed("openai"),
        countTokens: estimateTokens,
        archive: memoryArchive(),
        mechanisms: { normalization, references: true },
      });
      let messages: Message[] = [{ role: "user", content: "Go." }];
      const above: NamedText[] = [];
      for (const [at, { how: { tool, args, number }, blocks, first }] of reads.entries()) {
        const id = String(at);
        const text = number(blocks.flat(), first);
        const call = {
          id,
          type: "function",
          function: { name: tool, arguments: JSON.stringify(args) },
        } as const;
        messages = [
          ...messages,
          { role: "assistant", content: null, tool_calls: [call] },
          { role: "tool", tool_call_id: id, content: text },
        ];
        const view = await session.view({ messages, tools: [] }, { nowMs: at, recall: true });
        session.sent();
        const visible = contentText(view.messages.at(-1)!.content);
        if (visible.includes(" unchanged, as in ")) references++;
        assertEquals(expand(visible, above).text, text);
        above.push(...["a.ts", "b.ts"].map((name) => ({ name, text: visible })));
      }
    }),
    { numRuns: cases(150) },
  );
  assert(references > 30, `${references}`);
});

const tsv = lines(60, (at) => `${at}\tperson_${at}\t${(37 * at) % 101}`);

Deno.test("normalization: tables with a column that counts up stay byte for byte, whatever printed them", async () => {
  const tables = [
    `id\tname\tscore\n${tsv}`,
    tsv,
    lines(60, (at) => `${at + 1}|person_${at}|${(37 * at) % 101}`),
    lines(60, (at) => `${at + 1}| person_${at}| ${(37 * at) % 101}`),
    lines(60, (at) => `${at + 1}|${919 + at}|14`),
    lines(60, (at) => `${1960 + at}\t${(7919 * at) % 1000}`),
    lines(60, (at) => `${at + 1}\t${at}\tsrc/folder/file_${at}.ts`),
    lines(60, (at) => `${String(at + 1).padStart(7)} name_${at}`),
    lines(60, (at) => `${String(at + 1).padStart(6)}\tname_${at}`),
    lines(60, (at) => `${at}: ${"#".repeat(at % 30)}`),
    lines(60, (at) => `${at + 1}→person_${at}`),
  ];
  const calls: readonly Omit<ToolResult, "text">[] = [
    { tool: "bash", args: { command: "sqlite3 a.db 'select * from people'" } },
    { tool: "Bash", args: { command: "cat table.tsv" } },
    { tool: "Bash", args: { command: "cat -n a.ts | cut -f2-; sqlite3 a.db 'select * from people'" } },
    { tool: "Bash", args: { command: "cat -n a.ts; sqlite3 a.db 'select * from people'" } },
    { tool: "exec_command", args: { cmd: "psql -c 'select * from people'" } },
    { tool: "shell", args: { command: "git diff --numstat; sort a | uniq -c" } },
    { tool: "shell", args: { command: ["bash", "-lc", "cut -f1,2 a.tsv"] } },
    { tool: "read_file", args: { path: "table.tsv" } },
    { tool: "Read", args: { filepath: "table.tsv" } },
    { tool: "read", args: { path: "table.tsv" } },
    { tool: "mcp__db__query", args: { sql: "select * from people" } },
    { tool: "query", args: {} },
  ];
  for (const text of tables) {
    for (const call of calls) {
      // Only Claude Code writes the arrow.
      assertEquals((await visibleOf({ ...call, text })).visible, text, JSON.stringify(call));
    }
  }
});

const PACKAGE = JSON.stringify(
  {
    name: "app",
    scripts: Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`task:${at}`, "echo  a"])),
  },
  undefined,
  2,
);
const REPEATING = `key: value\n${"  - same\n".repeat(60)}end: true\n`;

Deno.test("normalization: a file stays unchanged, whichever tool or command shows it", async () => {
  const calls: readonly Omit<ToolResult, "text">[] = [
    ...[
      "cat package.json",
      "cd app && cat package.json",
      "bash -lc 'cat package.json'",
      `sh -c "cd app; head -n 100 'package.json'"`,
      "git show HEAD:package.json",
      "git -C app show HEAD~1:package.json",
      "git cat-file -p abc123",
      "sed -n '1,200p' package.json",
      "tail -n +1 package.json",
      "awk '{ print }' package.json",
      "sudo cat package.json",
      "find . -name package.json -exec cat {} +",
      "find . -name package.json | xargs cat",
      'echo "$(cat package.json)"',
      "python3 -c \"print(open('package.json').read())\"",
      'while read -r l; do echo "$l"; done < package.json',
      "for f in *.json; do cat $f; done",
      "npm test > log.txt; cat log.txt",
      "jq . package.json",
      "Get-Content package.json",
      "gc package.json",
      'powershell -Command "Get-Content package.json"',
      "cmd /c type package.json",
      "docker exec app cat package.json",
      "ssh host cat package.json",
      "curl -s https://example.com/raw/package.json",
      "unzip -p a.zip package.json",
      "tar -xOf a.tgz package/package.json",
      "npx prettier package.json",
      "go run ./print",
    ].flatMap((command) => [
      { tool: "Bash", args: { command } },
      { tool: "exec_command", args: { cmd: command } },
      { tool: "local_shell", args: { action: { type: "exec", command: ["bash", "-lc", command] } } },
    ]),
    ...[
      "shell_command",
      "run_shell_command",
      "execute_command",
      "run_in_terminal",
      "exec",
      "container.exec",
      "terminal",
    ]
      .map((tool) => ({ tool, args: { command: "cat package.json" } })),
    { tool: "shell", args: { command: ["cat", "package.json"] } },
    { tool: "run_commands", args: { commands: ["ls", "cat package.json"] } },
    { tool: "write_stdin", args: { session_id: 1, chars: "cat package.json\n" } },
    { tool: "run_shell_command", args: {} },
    { tool: "read_file", args: { absolute_path: "/p/package.json" } },
    { tool: "read_many_files", args: { paths: ["package.json"] } },
    { tool: "view", args: { path: "/p/package.json" } },
    { tool: "mcp__github__get_file_contents", args: { owner: "o", repo: "r", path: "package.json" } },
    { tool: "filesystem_read_text_file", args: { path: "package.json" } },
    { tool: "filesystem.read_multiple_files", args: { paths: ["package.json"] } },
    { tool: "read_resource", args: { uri: "file:///p/package.json" } },
    { tool: "show_document", args: { document: "config/package.json" } },
    { tool: "fetch_blob", args: { uri: "repo://o/r/contents/package" } },
  ];
  for (const text of [PACKAGE, `${PACKAGE}\n`, REPEATING]) {
    for (const call of calls) {
      assertEquals((await visibleOf({ ...call, text })).visible, text, JSON.stringify(call));
    }
  }
});

Deno.test("normalization: carriage returns stay as line ends, and are folded in progress output", async () => {
  const words = Array.from({ length: 60 }, (_, at) => `Line ${at} of an old text, which is 10% done.`);
  const commands = ["npm test", "git clone x", "ls"];
  for (
    const text of [
      words.join("\r"),
      words.map((one, at) => one + (at % 3 ? "\r" : "\r\n")).join(""),
      words.join("\r\n"),
    ]
  ) {
    for (const command of commands) {
      assertEquals((await visibleOf({ tool: "Bash", args: { command }, text })).visible, text);
    }
  }
  const rows = lines(60, (at) => `${at}/2/2026,5\r${at}/3/2026,6`);
  assertEquals((await visibleOf({ tool: "Bash", args: { command: "npm test" }, text: rows })).visible, rows);
  const shares = Array.from({ length: 100 }, (_, at) => `Receiving objects: ${at + 1}% (${at + 1}/100)`);
  const text = `Cloning into 'x'...\n${shares.join("\r")}, done.\nend`;
  const { visible, archive } = await visibleOf({ tool: "Bash", args: { command: "git clone x" }, text });
  const [marker = "", ...rest] = visible.split("\n");
  assertEquals(rest, ["Cloning into 'x'...", "Receiving objects: 100% (100/100), done.", "end"]);
  assertEquals(await archive.get(/recall with ref ([0-9a-f]{16})\]$/.exec(marker)![1]!), text);
  // Without recall everything removed can be rebuilt; a file's text stays.
  for (const [command, recall] of [["git clone x", false], ["cat log", true]] as const) {
    assertEquals((await visibleOf({ tool: "Bash", args: { command }, text }, { recall })).visible, text);
  }
});

Deno.test("normalization: calls and results that repeat one piece take linear time", async () => {
  const times = 200_000;
  await visibleOf({ tool: "read file ".repeat(times), args: {}, text: "There is no such tool. ".repeat(50) });
  for (const piece of ["1", "1.", "[-", "\x1b]", "1/", "a:1", "a-1-"]) {
    const text = `${piece.repeat(times)}\r${piece.repeat(times)}\r50%\n`;
    await visibleOf({ tool: "Bash", args: { command: "make" }, text });
  }
});
