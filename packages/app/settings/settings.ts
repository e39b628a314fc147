import { parseArgs } from "node:util";
import { MESSAGES_PROVIDER } from "@tare/planner";
import { dataFolder, HOME_VARIABLES } from "../data/data_folder.ts";
import type { Option } from "./option.ts";
import { type Mechanism, MECHANISMS, OPTIONS } from "./options.ts";

type Options = typeof OPTIONS;
type Value<Name extends keyof Options> = NonNullable<ReturnType<Options[Name]["read"]>>;
type Defaulted =
  | "data"
  | { [Name in keyof Options]: Options[Name] extends { fallback: string } ? Name : never }[
    keyof Options
  ];

/** Everything that can be configured, defaults filled in; each option's help says what it is. */
export type Settings =
  & { readonly [Name in Defaulted]: Value<Name> }
  & { readonly [Name in Exclude<keyof Options, Defaulted>]?: Value<Name> }
  & {
    /** Where the shell tool finds programs, from the environment's `PATH`. Default: the system's usual folders. */
    readonly path?: string;
    /** Mechanisms that are switched off. */
    readonly off: readonly Mechanism[];
  };

/** Where a task was started from: it runs in the project's folder, and paths that people give count from theirs. */
const CALLER_FOLDER = "INIT_CWD";

/** The environment variables that the settings are read from. */
export const VARIABLES: readonly string[] = [
  "PATH",
  CALLER_FOLDER,
  ...HOME_VARIABLES,
  ...Object.values(OPTIONS).map(({ variable }) => variable),
];

/**
 * Reads the settings from flags and environment; a flag outranks its variable, and an empty variable counts as unset.
 *
 * @throws {RangeError} naming the variable (or flag), its value and what would be right.
 */
export function readSettings(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Settings {
  const flags = parseFlags(args);
  /** Where each setting that isn't a default was told. */
  const sources = new Map<string, string>();
  const read = ([name, option]: [string, Option<unknown>]): [string, unknown][] => {
    const byFlag = option.flag === undefined ? undefined : flags[option.flag];
    const told = typeof byFlag === "string" ? byFlag : environment[option.variable] || undefined;
    const given = told ?? option.fallback;
    if (given === undefined) return [];
    const value = option.read(given, environment[CALLER_FOLDER]);
    const source = typeof byFlag === "string" ? `--${option.flag}` : option.variable;
    if (told !== undefined) sources.set(name, source);
    if (value !== undefined) return [[name, value]];
    const state = option.isSecret ? "is set to something else" : `is ${JSON.stringify(given)}`;
    throw new RangeError(`Cannot start: ${source} ${state}, but it must be ${option.right}.`);
  };
  const options = Object.fromEntries(Object.entries(OPTIONS).flatMap(read)) as unknown as
    & Omit<Settings, "data" | "off" | "path">
    & Partial<Pick<Settings, "data">>;
  const data = dataFolder(options, environment);
  const settings: Settings = {
    ...options,
    data,
    ...(environment.PATH && { path: environment.PATH }),
    off: mechanismNames().filter((name) => flags[`no-${name}`] === true),
  };
  const { apiKey, baseUrl, messagesKey, messagesUrl, model, policy, pruneAt, summariseAt } = settings;
  if (settings.profile !== undefined && settings.profileFile !== undefined) {
    throw new RangeError(
      "Cannot start: TARE_PROFILE and TARE_PROFILE_FILE are both set, but the file names its profile itself.",
    );
  }
  for (const [name, option] of Object.entries(OPTIONS) as [string, Option<unknown>][]) {
    const source = sources.get(name);
    if (source === undefined || (option.policy ?? policy) === policy) continue;
    throw new RangeError(
      `Cannot start: ${source} is set, but the policy is ${policy}, and only ${option.policy} goes by it. ` +
        `Set TARE_POLICY to ${option.policy}, or leave ${source} out.`,
    );
  }
  if (settings.database !== undefined && settings.maxDataMiB !== undefined) {
    throw new RangeError(
      "Cannot start: TARE_DATABASE and TARE_MAX_DATA are both set, but how large a database may become is decided " +
        "where it runs. Leave TARE_MAX_DATA out.",
    );
  }
  if (pruneAt > summariseAt) {
    throw new RangeError(
      `Cannot start: TARE_PRUNE_AT is ${pruneAt} and TARE_SUMMARISE_AT is ${summariseAt}, but results must be pruned ` +
        "before turns are summarised: the first must not be larger than the second.",
    );
  }
  const isElsewhere = messagesKey !== undefined || messagesUrl !== MESSAGES_PROVIDER.baseURL;
  if (apiKey === undefined && baseUrl === undefined && !isElsewhere && model !== undefined) {
    throw new RangeError(
      `Cannot start: TARE_MODEL is ${JSON.stringify(model)}, but then OPENAI_API_KEY, OPENAI_BASE_URL, ` +
        "ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL must be set too; without all of them a rehearsal model answers.",
    );
  }
  for (const name of ["baseUrl", "messagesUrl"] as const) {
    if (!isOwn(settings, settings[name])) continue;
    throw new RangeError(
      `Cannot start: ${OPTIONS[name].variable} is ${
        JSON.stringify(settings[name])
      }, which is this server itself; ` +
        "it must be the provider's address. Clients alone are told this server's.",
    );
  }
  return settings;
}

/** Whether requests to an address would come back to the server. */
function isOwn({ host, port }: Pick<Settings, "host" | "port">, address: string | undefined): boolean {
  const { hostname, port: theirs } = URL.parse(address ?? "") ?? {};
  const hosts = ["127.0.0.1", "localhost", "[::1]", host];
  return hostname !== undefined && hosts.includes(hostname) && theirs === String(port);
}

/** What `--help` prints. */
export function settingsHelp(): string {
  const rows = Object.values(OPTIONS).map((option: Option<unknown>) => [
    option.variable,
    option.flag === undefined ? "" : `--${option.flag}`,
    (option.policy ? `With ${option.policy}: ${lowerFirst(option.help)}` : option.help) +
    (!option.fallback ? "" : `. Default: ${option.fallback}`),
  ]);
  for (const name of mechanismNames()) rows.push(["", `--no-${name}`, MECHANISMS[name]]);
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0)) + 2;
  return [
    "Starts the agent server. Each setting is an environment variable or a flag:",
    "",
    ...rows.map(([variable = "", flag = "", help = ""]) =>
      `  ${variable.padEnd(width(0))}${flag.padEnd(width(1))}${help}`.trimEnd()
    ),
    "",
  ].join("\n");
}

function parseFlags(args: readonly string[]): Readonly<Record<string, string | boolean | undefined>> {
  const options: Record<string, { type: "string" | "boolean" }> = {};
  for (const { flag } of Object.values(OPTIONS) as Option<unknown>[]) {
    if (flag) options[flag] = { type: "string" };
  }
  for (const name of mechanismNames()) options[`no-${name}`] = { type: "boolean" };
  try {
    return parseArgs({ args: [...args], options, strict: true }).values;
  } catch (error) {
    throw new RangeError(`Cannot start: ${(error as Error).message}. See --help.`, { cause: error });
  }
}

function mechanismNames(): Mechanism[] {
  return Object.keys(MECHANISMS) as Mechanism[];
}

function lowerFirst(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}
