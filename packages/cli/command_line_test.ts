import { assertEquals, assertThrows } from "@std/assert";
import { commandLine } from "./command_line.ts";

const CONFIG = {
  allowPositionals: true,
  options: { session: { type: "string" }, help: { type: "boolean", short: "h" } },
} as const;

Deno.test("commandLine() returns options and positionals", () => {
  const { values, positionals } = commandLine({ ...CONFIG, args: ["--session", "s", "-h", "Why?"] });
  assertEquals([{ ...values }, positionals], [{ session: "s", help: true }, ["Why?"]]);
});

Deno.test("commandLine() throws with the known options", () => {
  const outputOf = (...args: string[]) =>
    assertThrows(() => commandLine({ ...CONFIG, args }), RangeError).message;
  const right = "Its options are --session, --help.";
  assertEquals(outputOf("--color"), `Cannot parse the command line: Unknown option '--color'. ${right}`);
  assertEquals(
    outputOf("--help=yes"),
    `Cannot parse the command line: Option '-h, --help' does not take an argument. ${right}`,
  );
  assertEquals(
    outputOf("--session"),
    `Cannot parse the command line: Option '--session <value>' argument missing. ${right}`,
  );
});
