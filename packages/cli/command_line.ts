// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { printableText } from "./terminal/printable_text.ts";

export function commandLine<const Config extends ParseArgsConfig>(
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (error) {
    // Later sentences explain positionals.
    const [wrong = ""] = (error as Error).message.split(/\. |\n/, 1);
    const known = Object.keys(config.options ?? {}).map((name) => `--${name}`).join(", ");
    throw new RangeError(`Cannot parse the command line: ${wrong}. Its options are ${known}.`, {
      cause: error,
    });
  }
}

interface Option {
  readonly type: "string" | "boolean";
  readonly default?: string;
  readonly value?: string;
  readonly text: string;
}

type OptionTable = Readonly<Record<string, Option>>;

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

/** A command: parsing and `--help` derive from it. */
export interface Command<Options extends OptionTable> {
  readonly call: string;
  /** Purpose, without a full stop. */
  readonly summary: string;
  /** Forms of the arguments, one line each. Default: the options. */
  readonly usage?: readonly string[];
  readonly details?: string;
  readonly options: Options;
  readonly notes?: string;
  /** Whether positionals are allowed. Default: false. */
  readonly hasWords?: boolean;
}

export const SERVER_OPTIONS = {
  url: option("URL", "Server address. Default: TARE_HOST and TARE_PORT, or this folder's server"),
};

export const KEY_NOTE = "The key is TARE_TOKEN, or the owner's key of a server on this machine.";

export const REPORT_OPTIONS = {
  from: option("DAY", "First day (UTC), such as 2026-01-31. Default: any"),
  to: option("DAY", "Last day (UTC). Default: any"),
  json: flag("Print the server's report as JSON"),
  ...SERVER_OPTIONS,
};

/** Runs a command, prints errors, and exits with the code from `main` (default 0; `"usage"` prints the help). */
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

/** Exits with the code from `main` (default 0), or prints its error and exits with 1. */
export async function exitAfter(main: () => Promise<number | void>): Promise<void> {
  try {
    Deno.exit(await main() ?? 0);
  } catch (error) {
    console.error(printableText((error as Error).message));
    Deno.exit(1);
  }
}

/** Resolves a path against the caller's folder: tasks run in the project's folder. */
export function callersPath(path: string): string {
  return resolve(Deno.env.get("INIT_CWD") || ".", path);
}

export function checkDays(days: Readonly<Record<string, string | undefined>>): void {
  for (const [option, day] of Object.entries(days)) {
    if (day === undefined || /^\d{4}-\d{2}-\d{2}$/.test(day) && Number.isFinite(Date.parse(day))) continue;
    throw new Error(`Cannot use --${option} ${day}: it is not a day. Use the form 2026-01-31.`);
  }
}

/** Parses a comma-separated list. @throws {RangeError} if it contains an unknown word. */
export function knownWords<Word extends string>(
  text: string,
  { known, what }: { readonly known: readonly Word[]; readonly what: string },
): Word[] {
  const words = text.split(",").map((word) => word.trim());
  const found = known.filter((word) => words.includes(word));
  if (found.length === new Set(words).size) return found;
  throw new RangeError(`${what} is ${JSON.stringify(text)}. Use a list of ${known.join(", ")}.`);
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
