import { parseArgs } from "node:util";
import { DEFAULT_PROVIDER, PROFILES } from "@tare/planner";
// The type alone: who only reads settings need not load the server.
import type { Policy } from "@tare/server";

/** Everything that can be configured, with defaults filled in. */
export interface Settings {
  readonly host: string;
  readonly port: number;
  /** The folder that the tools may touch. */
  readonly workspace: string;
  /** The folder where sessions are kept. */
  readonly data: string;
  /** What requests must carry as a bearer token. */
  readonly token?: string;
  /** Host names that requests may name beside those of {@linkcode Settings.host}. */
  readonly allowedHosts: readonly string[];
  /** Origins whose pages may use the server. */
  readonly corsOrigins: readonly string[];
  readonly apiKey?: string;
  readonly baseUrl?: string;
  readonly model?: string;
  readonly profile?: string;
  readonly windowTokens: number;
  /** Whether requests for the provider's models get the recall tool. */
  readonly recall: boolean;
  /** Share of the provider's sessions that are left as they are. */
  readonly control: number;
  /** What decides when a prompt is rewritten. */
  readonly policy: Policy;
  /** Where the shell tool finds programs, from the environment's `PATH`. Default: the system's usual folders. */
  readonly path?: string;
  /** Mechanisms that are switched off. */
  readonly off: readonly Mechanism[];
}

/** Each mechanism has a flag that switches it off. */
export const MECHANISMS = {
  context: "Send all old turns with every call of a tool loop",
  prune: "Never replace old tool results by placeholders",
  schemas: "Send every tool's full schema with every call",
  truncate: "Send huge tool results whole",
} as const;

/** Each policy, and when it rewrites a prompt. */
const POLICIES: Readonly<Record<Policy, string>> = {
  planner: "as soon as that pays",
  classic: "at fixed triggers",
};

/** Name of a mechanism. */
export type Mechanism = keyof typeof MECHANISMS;

interface Option {
  readonly variable: string;
  /** The same by flag; a key has none, since other users of the machine can read a command line. */
  readonly flag?: string;
  readonly fallback?: string;
  readonly help: string;
  /** True if no message may show the value. */
  readonly isSecret?: boolean;
  /** What would be right, if the value is wrong. */
  readonly fault?: (value: string) => string | undefined;
}

const OPTIONS = {
  host: {
    variable: "TARE_HOST",
    flag: "host",
    fallback: "127.0.0.1",
    help: "Address to listen on",
  },
  port: {
    variable: "TARE_PORT",
    flag: "port",
    fallback: "8787",
    help: "Port to listen on; 0 takes a free one",
    fault: wholeNumber(0, 65535),
  },
  workspace: {
    variable: "TARE_WORKSPACE",
    flag: "workspace",
    fallback: ".",
    help: "The folder that the tools may touch",
    fault: (value) => isDirectory(value) ? undefined : "a folder that exists",
  },
  data: {
    variable: "TARE_DATA",
    flag: "data",
    fallback: ".tare",
    help: "The folder where sessions are kept",
  },
  token: {
    variable: "TARE_TOKEN",
    isSecret: true,
    help:
      "Token that requests must carry (Authorization: Bearer …); needed if other machines can reach TARE_HOST",
    fault: (value) => /^[\x21-\x7e]+$/.test(value) ? undefined : "printable ASCII without spaces",
  },
  allowedHosts: {
    variable: "TARE_ALLOWED_HOSTS",
    flag: "allowed-hosts",
    help: "Names under which requests may reach the server beside its own, with commas between them",
    fault: (value) =>
      list(value).every((host) => URL.parse(`http://${host}`)?.host === host.toLowerCase())
        ? undefined
        : "host names such as agent.example, with commas between them",
  },
  corsOrigins: {
    variable: "TARE_CORS_ORIGINS",
    flag: "cors-origins",
    help: "Origins whose web pages may use the server, with commas between them",
    fault: (value) =>
      list(value).every((origin) => /^https?:/.test(origin) && URL.parse(origin)?.origin === origin)
        ? undefined
        : "origins such as https://chat.example, with commas between them",
  },
  apiKey: {
    variable: "OPENAI_API_KEY",
    isSecret: true,
    help: "Key of the provider; without key and base URL a rehearsal model answers",
  },
  baseUrl: {
    variable: "OPENAI_BASE_URL",
    flag: "base-url",
    help: `Address of an OpenAI-compatible provider. Default with a key: ${DEFAULT_PROVIDER.baseURL}`,
    fault: (value) =>
      /^https?:$/.test(URL.parse(value)?.protocol ?? "") ? undefined : "an address such as https://host/v1",
  },
  model: {
    variable: "TARE_MODEL",
    flag: "model",
    help: "The provider's name for the model; needed with a provider",
  },
  profile: {
    variable: "TARE_PROFILE",
    flag: "profile",
    help: `Cache rules and prices: ${Object.keys(PROFILES).join(", ")}. Default: by base URL and model`,
    fault: (value) =>
      Object.hasOwn(PROFILES, value) ? undefined : `one of ${Object.keys(PROFILES).join(", ")}`,
  },
  policy: {
    variable: "TARE_POLICY",
    flag: "policy",
    fallback: "planner",
    help: `When a prompt is rewritten: ${
      Object.entries(POLICIES).map(([name, when]) => `${name}, ${when}`).join("; ")
    }`,
    fault: (value) => isPolicy(value) ? undefined : `one of ${Object.keys(POLICIES).join(", ")}`,
  },
  windowTokens: {
    variable: "TARE_WINDOW",
    flag: "window",
    fallback: "128000",
    help: "The model's context window in tokens",
    fault: wholeNumber(1000, 100_000_000),
  },
  recall: {
    variable: "TARE_RECALL",
    flag: "recall",
    fallback: "on",
    help:
      "Whether requests for the provider's models get a tool to read back what left their prompts: on, off",
    fault: (value) => /^(on|off)$/.test(value) ? undefined : "on or off",
  },
  control: {
    variable: "TARE_CONTROL",
    flag: "control",
    fallback: "0",
    help: "Share of the sessions with the provider's models that are sent on as they are, to compare with",
    fault: (value) =>
      /^\d*\.?\d+$/.test(value) && Number(value) <= 1 ? undefined : "a number from 0 to 1, such as 0.1",
  },
} satisfies Record<string, Option>;

/** The environment variables that the settings are read from. */
export const VARIABLES: readonly string[] = [
  "PATH",
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
  const read = (option: Option): string | undefined => {
    const byFlag = option.flag === undefined ? undefined : flags[option.flag];
    const value = typeof byFlag === "string" ? byFlag : environment[option.variable] || option.fallback;
    const right = value === undefined ? undefined : option.fault?.(value);
    if (right === undefined) return value;
    const name = typeof byFlag === "string" ? `--${option.flag}` : option.variable;
    const state = option.isSecret ? "is set to something else" : `is ${JSON.stringify(value)}`;
    throw new RangeError(`Cannot start: ${name} ${state}, but it must be ${right}.`);
  };
  const { token, apiKey, baseUrl, model, profile } = {
    token: read(OPTIONS.token),
    apiKey: read(OPTIONS.apiKey),
    baseUrl: read(OPTIONS.baseUrl),
    model: read(OPTIONS.model),
    profile: read(OPTIONS.profile),
  };
  const provider = apiKey !== undefined || baseUrl !== undefined;
  if (provider && model === undefined) {
    throw new RangeError(
      "Cannot start: TARE_MODEL is not set, but with a provider it must be the provider's name for a model.",
    );
  }
  if (!provider && model !== undefined) {
    throw new RangeError(
      `Cannot start: TARE_MODEL is ${
        JSON.stringify(model)
      }, but then OPENAI_API_KEY or OPENAI_BASE_URL must be set ` +
        "too; without all three a rehearsal model answers.",
    );
  }
  return {
    host: read(OPTIONS.host) ?? "",
    port: Number(read(OPTIONS.port)),
    workspace: read(OPTIONS.workspace) ?? "",
    data: read(OPTIONS.data) ?? "",
    allowedHosts: list(read(OPTIONS.allowedHosts)),
    corsOrigins: list(read(OPTIONS.corsOrigins)),
    windowTokens: Number(read(OPTIONS.windowTokens)),
    recall: read(OPTIONS.recall) === "on",
    control: Number(read(OPTIONS.control)),
    policy: policyNamed(read(OPTIONS.policy)),
    ...(environment.PATH && { path: environment.PATH }),
    off: mechanismNames().filter((name) => flags[`no-${name}`] === true),
    ...(token !== undefined && { token }),
    ...(apiKey !== undefined && { apiKey }),
    ...(baseUrl !== undefined && { baseUrl }),
    ...(model !== undefined && { model }),
    ...(profile !== undefined && { profile }),
  };
}

/** What `--help` prints. */
export function settingsHelp(): string {
  const rows = Object.values(OPTIONS).map((option: Option) => [
    option.variable,
    option.flag === undefined ? "" : `--${option.flag}`,
    option.help + (option.fallback === undefined ? "" : `. Default: ${option.fallback}`),
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
  for (const { flag } of Object.values(OPTIONS) as Option[]) if (flag) options[flag] = { type: "string" };
  for (const name of mechanismNames()) options[`no-${name}`] = { type: "boolean" };
  try {
    return parseArgs({ args: [...args], options, strict: true }).values;
  } catch (error) {
    throw new RangeError(`Cannot start: ${(error as Error).message}. See --help.`, { cause: error });
  }
}

function isPolicy(name: string): name is Policy {
  return Object.hasOwn(POLICIES, name);
}

/** The policy of this name, which has been checked. */
function policyNamed(name = ""): Policy {
  return isPolicy(name) ? name : "planner";
}

function mechanismNames(): Mechanism[] {
  return Object.keys(MECHANISMS) as Mechanism[];
}

/** The members of a list with commas between them. */
function list(text = ""): readonly string[] {
  return text.split(",").map((member) => member.trim()).filter(Boolean);
}

function wholeNumber(least: number, most: number): (value: string) => string | undefined {
  return (value) => {
    const right = /^\d+$/.test(value) && Number(value) >= least && Number(value) <= most;
    return right ? undefined : `a whole number from ${least} to ${most}`;
  };
}

function isDirectory(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return false;
    throw error;
  }
}
