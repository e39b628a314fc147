// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { shownText } from "./terminal/shown_text.ts";

/** Parses a command line. @throws {RangeError} with the fault and the known options. */
export function commandLine<const Config extends ParseArgsConfig>(
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    // After its first sentence Node advises how to send the option as a word.
    const [wrong = ""] = (error as Error).message.split(/\. |\n/, 1);
    const known = Object.keys(config.options ?? {}).map((name) => `--${name}`).join(", ");
    throw new RangeError(`Cannot read the command: ${wrong}. Its options are ${known}.`, { cause: error });
  }
}

interface Option {
  readonly type: "string" | "boolean";
  readonly default?: string;
  readonly value?: string;
  readonly text: string;
}

type OptionTable = Readonly<Record<string, Option>>;

/** Returns an option without a value. */
export function flag(text: string) {
  return { type: "boolean", text } as const satisfies Option;
}

export function option(value: string, text: string) {
  return { type: "string", value, text } as const satisfies Option;
}

export function optionOr(initial: string, value: string, text: string) {
  return {
    type: "string",
    default: initial,
    value,
    text: `${text} Default: ${initial}`,
  } as const satisfies Option;
}

/** A command, from which parsing and `--help` follow. */
export interface Command<Options extends OptionTable> {
  /** How it is called, without arguments. */
  readonly call: string;
  /** What it does, without an end. */
  readonly summary: string;
  /** What may follow its name, a line for each form. Default: its options. */
  readonly usage?: readonly string[];
  /** Text above the options in `--help`. */
  readonly details?: string;
  readonly options: Options;
  /** Text below them. */
  readonly notes?: string;
  /** Whether words may follow. Default: false. */
  readonly hasWords?: boolean;
}

export const SERVER_OPTIONS = {
  url: option("URL", "The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder"),
};

/** What such a command says about keys. */
export const KEY_NOTE =
  "The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.";

export const REPORT_OPTIONS = {
  from: option("DAY", "The first day, by UTC, such as 2026-01-31. Default: any"),
  to: option("DAY", "The last day. Default: any"),
  json: flag("Print what the server says as JSON"),
  ...SERVER_OPTIONS,
};

/** Runs a command and exits with the result of `main` (default 0; `"usage"` prints the help). Errors are printed. */
export async function runCommandLine<const Options extends OptionTable>(
  command: Command<Options>,
  main: (
    given: Pick<
      ReturnType<typeof parseArgs<{ options: Options; allowPositionals: true }>>,
      "values" | "positionals"
    >,
  ) => Promise<number | void | "usage">,
): Promise<void> {
  await exitAfter(async () => {
    const { values, positionals } = commandLine({
      allowPositionals: command.hasWords ?? false,
      options: { ...command.options, help: { type: "boolean", short: "h" } },
    });
    if ("help" in values) return console.log(helpOf(command));
    const result = await main({ values, positionals } as Parameters<typeof main>[0]);
    if (result !== "usage") return result;
    console.error(helpOf(command));
    return 2;
  });
}

/** Exits with the code that a function returns, 0 by default. Errors are printed as sentences. */
export async function exitAfter(main: () => Promise<number | void>): Promise<void> {
  try {
    Deno.exit(await main() ?? 0);
  } catch (error) {
    console.error(shownText((error as Error).message));
    Deno.exit(1);
  }
}

/** Returns a path as the caller means it: a task runs in the project's folder. */
export function callersPath(path: string): string {
  return resolve(Deno.env.get("INIT_CWD") || ".", path);
}

/** Checks days of options. @throws {Error} if one has another form. */
export function checkDays(days: Readonly<Record<string, string | undefined>>): void {
  for (const [option, day] of Object.entries(days)) {
    if (day === undefined || /^\d{4}-\d{2}-\d{2}$/.test(day) && Number.isFinite(Date.parse(day))) continue;
    throw new Error(`Cannot use --${option} ${day}: it must be a day, such as 2026-01-31.`);
  }
}

/** Parses a list of known words. @throws {RangeError} if there are others. */
export function knownWords<Word extends string>(
  text: string,
  { known, what }: { readonly known: readonly Word[]; readonly what: string },
): Word[] {
  const words = text.split(",").map((word) => word.trim());
  const found = known.filter((word) => words.includes(word));
  if (found.length === new Set(words).size) return found;
  throw new RangeError(`${what} is ${JSON.stringify(text)}, and some of ${known.join(", ")} are wanted.`);
}

function helpOf({ call, summary, usage, details, options, notes }: Command<OptionTable>): string {
  const heads = Object.entries(options).map(([name, { value }]) =>
    `  --${name}${value === undefined ? "" : ` ${value}`}`
  );
  const width = Math.max(0, ...heads.map(({ length }) => length)) + 2;
  const lines = Object.values(options).map(({ text }, at) =>
    heads[at]!.padEnd(width) + text.replaceAll("\n", `\n${" ".repeat(width)}`)
  );
  const forms = usage ?? [heads.map((head) => `[${head.trim()}]`).join(" ")];
  return [
    `${summary}:`,
    forms.map((form) => `  ${call} ${form}`.trimEnd()).join("\n"),
    ...(details === undefined ? [] : [details]),
    ...(lines.length === 0 ? [] : [lines.join("\n")]),
    ...(notes === undefined ? [] : [notes]),
  ].join("\n\n");
}
