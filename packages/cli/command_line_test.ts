import { assertEquals, assertThrows } from "@std/assert";
import { commandLine } from "./command_line.ts";

const CONFIG = {
  allowPositionals: true,
  options: { session: { type: "string" }, help: { type: "boolean", short: "h" } },
} as const;

Deno.test("commandLine() gives options and words", () => {
  const { values, positionals } = commandLine({ ...CONFIG, args: ["--session", "s", "-h", "Why?"] });
  assertEquals([{ ...values }, positionals], [{ session: "s", help: true }, ["Why?"]]);
});

Deno.test("commandLine() says what is wrong, and which options there are", () => {
  const told = (...args: string[]) =>
    assertThrows(() => commandLine({ ...CONFIG, args }), RangeError).message;
  const right = "Its options are --session, --help.";
  assertEquals(told("--colour"), `Cannot read the command: Unknown option '--colour'. ${right}`);
  assertEquals(
    told("--help=yes"),
    `Cannot read the command: Option '-h, --help' does not take an argument. ${right}`,
  );
  assertEquals(
    told("--session"),
    `Cannot read the command: Option '--session <value>' argument missing. ${right}`,
  );
});
