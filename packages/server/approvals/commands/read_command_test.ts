import { assertEquals } from "@std/assert";
import fc, { cases } from "../../../../tests/cases.ts";
import { join } from "@std/path";
import { readCommand } from "./read_command.ts";
import { needs, NOT_WINDOWS } from "../../../../tests/needs.ts";

const PIECES = [
  ...[
    "a",
    "b c",
    "'",
    '"',
    "\\",
    "$",
    "`",
    "{",
    "}",
    ",",
    "..",
    "~",
    "!",
    "#",
    " ",
    "\t",
    "=",
    "^",
    "@(",
    "+(",
    ")",
  ],
  ...[
    "(",
    "%",
    "[",
    "]",
    "?",
    "*",
    "-",
    "--x",
    "$'",
    '$"',
    "\\n",
    "'a'",
    '"b"',
    "<",
    ">",
    "&",
    "|",
    ";",
    "é",
    "\u00a0",
  ],
];

Deno.test({
  ...needs(NOT_WINDOWS, "Property: readCommand() gives the words that sh gives to the program, or none"),
  async fn() {
    const folder = await Deno.makeTempDir();
    const program = `#!/bin/sh\nfor word in "$@"; do printf '%s\\0' "$word"; done\nprintf '\\1'\n`;
    await Deno.writeTextFile(join(folder, "p"), program, { mode: 0o755 });
    const piece = fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: "binary-ascii", maxLength: 3 }));
    const command = fc.array(piece, { maxLength: 7 }).map((pieces) => `p ${pieces.join("")}`);
    await fc.assert(
      fc.asyncProperty(command, async (command) => {
        const words = readCommand(command);
        if (!words || words.some(({ isPattern }) => isPattern) || words[0]!.text !== "p") return;
        const options = { args: ["-c", command], cwd: folder, env: { PATH: folder }, clearEnv: true };
        const { stdout } = await new Deno.Command("/bin/sh", options).output();
        const wanted = words.slice(1).map(({ text }) => `${text}\0`).join("") + "\x01";
        assertEquals([command, new TextDecoder().decode(stdout)], [command, wanted]);
      }),
      { numRuns: cases(1_000), examples: [["p (;"], ["p ("], ["p a # b"], ["p a#b"], ["p '' \"\" a\\ b"]] },
    );
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test("readCommand() reads a command with a comment behind it, and none with one in between", () => {
  const words = (command: string) => readCommand(command)?.map(({ text }) => text);
  assertEquals(words("ls -l  # what is there"), ["ls", "-l"]);
  assertEquals(words("ls \t-l\t"), ["ls", "-l"]);
  // A tilde after a pattern or quotes isn't a home folder.
  assertEquals([words("ls *~"), words("ls ''~"), words('ls ""~')], [["ls", "*~"], ["ls", "~"], ["ls", "~"]]);
  assertEquals([words("ls#x"), words("ls -l#x")], [["ls#x"], ["ls", "-l#x"]]);
  assertEquals([words("ls # a\n-l"), words("# ls"), words("")], [undefined, undefined, undefined]);
});

Deno.test("readCommand() reads no command of more than 16,384 characters", () => {
  const long = (length: number) => readCommand(`ls ${"a".repeat(length - 3)}`) !== undefined;
  assertEquals([long(16_384), long(16_385)], [true, false]);
});
