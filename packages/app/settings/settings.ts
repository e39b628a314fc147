import {
  callersFolder,
  dataFolder,
  faultOfStored,
  HOME_VARIABLES,
  isDirectory,
  readSettingsFiles,
  type StoredVariables,
  USUAL_PORT,
  wholeNumber,
  withSettingsFiles,
} from "@tare/cli/parts";
import { nearestName } from "@tare/messages/internal";
import {
  DEFAULT_PROVIDER,
  MESSAGES_PROVIDER,
  modelProtocolOf,
  MODELS_DATE,
  PROFILES,
} from "@tare/planner/internal";
import { parseArgs } from "node:util";
import { readBucket, readDatabase } from "./database.ts";
import {
  address,
  anyText,
  fraction,
  fromFolder,
  keepAlive,
  KEY,
  list,
  oneOf,
  onOrOff,
  type Option,
  price,
  providersModel,
  readApprovals,
  readInstructions,
  readMcpFile,
  readProfile,
} from "./option.ts";

/** Parts that TARE_WITHOUT disables. */
const PARTS = [
  ...["context", "prune", "schemas", "truncate", "references", "normalization"] as const,
  ...["recall", "programs"] as const,
];

const POLICY_NAMES = ["planner", "lossless", "eager", "classic"] as const;

/** The settings by group, in the order of `--help all`. */
const GROUPS = {
  "Models and providers": {
    apiKey: {
      variable: "OPENAI_API_KEY",
      isCommon: true,
      isSecret: true,
      help: "Key of the provider; without a key and a base URL an offline demo model answers",
      ...KEY,
    },
    baseUrl: {
      variable: "OPENAI_BASE_URL",
      flag: "base-url",
      isCommon: true,
      help: `Base URL of an OpenAI-compatible provider. Default with a key: ${DEFAULT_PROVIDER.baseURL}`,
      ...address("https://host/v1"),
    },
    messagesKey: {
      variable: "ANTHROPIC_API_KEY",
      isCommon: true,
      isSecret: true,
      help: "Key for /v1/messages and for the agent on Claude. Default: each client's own",
      ...KEY,
    },
    messagesUrl: {
      variable: "ANTHROPIC_BASE_URL",
      flag: "messages-url",
      fallback: MESSAGES_PROVIDER.baseURL,
      help: "Base URL of the provider of /v1/messages, and of the agent on Claude",
      ...address(MESSAGES_PROVIDER.baseURL),
    },
    model: {
      variable: "TARE_MODEL",
      isCommon: true,
      help:
        "The provider's name for the agent's model; without it there is only the gateway. claude-… goes to " +
        "ANTHROPIC_BASE_URL if a key for it is set, every name if no other provider is",
      ...providersModel,
    },
    effort: {
      variable: "TARE_EFFORT",
      help:
        "Reasoning effort of the agent's model, such as low, medium or high; sessions and turns may set their own. " +
        "Default: the model's own",
      read: (word) => /^[a-z]{1,20}$/.test(word) ? word : undefined,
      right: "a word such as low, medium or high",
    },
    protocol: {
      variable: "TARE_PROTOCOL",
      help: "Protocol of the agent's models: responses or chat, at OPENAI_BASE_URL; messages, all at " +
        "ANTHROPIC_BASE_URL. Default: responses at OpenAI's own address, else chat; messages for claude-… with a key",
      ...oneOf("responses", "chat", "messages"),
    },
    profile: {
      variable: "TARE_PROFILE",
      help: `Cache rules and prices: ${Object.keys(PROFILES).join(", ")}, or a file such as the output ` +
        "of bench cache. Default: by base URL and model",
      read: readProfile,
      right: `one of ${Object.keys(PROFILES).join(", ")}, or a file that exists`,
    },
    price: {
      variable: "TARE_PRICE",
      help:
        "Price of the model, as input=3,output=15. Default: the profile file's price, else the list price of " +
        MODELS_DATE,
      ...price(),
    },
    windowTokens: {
      variable: "TARE_WINDOW",
      help: "The models' context window in tokens. Default: the provider's value, else the published one",
      ...wholeNumber(1000, 100_000_000),
    },
  },
  "Agent and tools": {
    workspace: {
      variable: "TARE_WORKSPACE",
      isCommon: true,
      fallback: ".",
      help: "The folder that the tools may access",
      read: (path, from) => isDirectory(fromFolder(path, from)) ? fromFolder(path, from) : undefined,
      right: "a folder that exists",
    },
    approvals: {
      variable: "TARE_APPROVALS",
      isCommon: true,
      help:
        "A JSON file of rules that run calls, deny them or require approval; allow runs all. Default: calls that " +
        "only read run, all others need approval",
      read: readApprovals,
      right: "a file that exists, or allow",
    },
    sandbox: {
      variable: "TARE_SANDBOX",
      isCommon: true,
      fallback: "on",
      help:
        "Sandbox for commands and the programs of MCP servers (docs/security.md): on, where available; strict, " +
        "refuses to start without one; off",
      ...oneOf("on", "off", "strict"),
    },
    mcp: {
      variable: "TARE_MCP",
      isCommon: true,
      help: "A JSON file whose mcpServers name the MCP servers of the agent",
      read: readMcpFile,
      right: "a file such as mcp.json",
    },
    instructions: {
      variable: "TARE_INSTRUCTIONS",
      help: "A Markdown file that replaces the built-in instructions (docs/how_it_works.md)",
      read: readInstructions,
      right: "a file that exists",
    },
    allowDomains: {
      variable: "TARE_ALLOW_DOMAINS",
      fallback: "",
      help:
        "Comma-separated hosts that sandboxed commands may reach without approval; *.example.com matches subdomains",
      read: list((host) => /^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*$/i.test(host)),
      right: "comma-separated hosts such as registry.npmjs.org,*.example.com",
    },
    unattended: {
      variable: "TARE_UNATTENDED",
      fallback: "deny",
      help:
        "Decision on calls that need approval if no user can answer, as for the agent as a model: deny, allow",
      ...oneOf("deny", "allow"),
    },
    unknownOutcome: {
      variable: "TARE_UNKNOWN_OUTCOME",
      fallback: "report",
      help:
        "Handling of a call that was running when the server ended: report, reports to the model that its outcome is " +
        "unknown; ask, requests an approval to repeat it; repeat, repeats it if its tool only reads or declares that safe",
      ...oneOf("report", "ask", "repeat"),
    },
    delegate: {
      variable: "TARE_DELEGATE",
      fallback: "off",
      help: "Whether the agent may delegate tasks to subagents: on, off",
      ...onOrOff(),
    },
    maxSteps: {
      variable: "TARE_MAX_STEPS",
      fallback: "500",
      help: "Most model calls of a turn, against endless loops. The next message continues from there",
      ...wholeNumber(1, 100_000),
    },
    maxRunningTurns: {
      variable: "TARE_MAX_TURNS",
      fallback: "100",
      help: "Most turns that run at the same time, those of subagents included",
      ...wholeNumber(1, 1_000_000),
    },
  },
  "Server and access": {
    port: {
      variable: "TARE_PORT",
      isCommon: true,
      help: `Port to listen on; 0 takes a free one. Default: ${USUAL_PORT}, or a free one if that is taken`,
      ...wholeNumber(0, 65535),
    },
    host: {
      variable: "TARE_HOST",
      fallback: "127.0.0.1",
      help: "Address to listen on",
      read: anyText,
    },
    token: {
      variable: "TARE_TOKEN",
      isCommon: true,
      isSecret: true,
      help:
        "The owner's key, in place of the one in the data folder; every request must then carry a key (Authorization: " +
        "Bearer …). Required if other machines can reach TARE_HOST",
      ...KEY,
    },
    allowedHosts: {
      variable: "TARE_ALLOWED_HOSTS",
      fallback: "",
      help: "Comma-separated host names that requests may use for the server, in addition to its own",
      read: list((host) => URL.parse(`http://${host}`)?.host === host.toLowerCase()),
      right: "comma-separated host names such as agent.example",
    },
    corsOrigins: {
      variable: "TARE_CORS_ORIGINS",
      fallback: "",
      help: "Comma-separated origins whose web pages may use the server",
      read: list((origin) => /^https?:/.test(origin) && URL.parse(origin)?.origin === origin),
      right: "comma-separated origins such as https://chat.example",
    },
    webhookHosts: {
      variable: "TARE_WEBHOOK_HOSTS",
      fallback: "",
      help:
        "Comma-separated hosts that webhooks may be sent to, with or without a port (docs/operation.md); * for " +
        "all public ones by HTTPS",
      read: list((host) => /^(\*|([a-z0-9_.-]+|\[[0-9a-f:]+\])(:\d{1,5})?)$/.test(host)),
      right: "comma-separated lower-case host names such as hooks.example,127.0.0.1:9000, or *",
    },
    endWithinSeconds: {
      variable: "TARE_END_WITHIN",
      fallback: "20",
      help: "Seconds for steps to end on SIGTERM; the next server with the sessions continues longer turns",
      ...wholeNumber(0, 3_600),
    },
    metrics: {
      variable: "TARE_METRICS",
      fallback: "off",
      help:
        "Access to GET /metrics for Prometheus (docs/operation.md): key, the owner and keys added with --routes " +
        "metrics; open, every client; off",
      ...oneOf("off", "key", "open"),
    },
    captureContent: {
      variable: "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
      help: "Whether telemetry contains message contents (docs/operation.md): true or false. Default: false",
      // Other values mean false, as in other instrumentations.
      read: (value: string) => /^(true|span_only|span_and_event)$/i.test(value),
    },
  },
  "Storage": {
    data: {
      variable: "TARE_DATA",
      help: "The folder that stores the sessions. Default: one for each workspace in your data directory",
      read: fromFolder,
    },
    database: {
      variable: "TARE_DATABASE",
      isSecret: true,
      help:
        "A PostgreSQL database in place of the data folder's file, so that several servers share the sessions " +
        "(docs/several_servers.md): its address, or a file that contains it",
      read: readDatabase,
      right: "an address such as postgres://user:password@host:5432/name, or a file that contains one",
    },
    archive: {
      variable: "TARE_ARCHIVE",
      isSecret: true,
      help:
        "A bucket for large texts of the sessions in the database, as s3://bucket/prefix?region=eu-central-1, " +
        "with &endpoint=https://… if it isn't Amazon's. Default: the database stores them",
      read: readBucket,
      right:
        "an address such as s3://bucket/prefix?region=eu-central-1, with &endpoint=https://host if it isn't Amazon's",
    },
    bucketKeyId: {
      variable: "AWS_ACCESS_KEY_ID",
      isSecret: true,
      help: "Access key of the bucket of TARE_ARCHIVE",
      read: anyText,
    },
    bucketKey: {
      variable: "AWS_SECRET_ACCESS_KEY",
      isSecret: true,
      help: "Secret of that access key",
      read: anyText,
    },
    maxDataMiB: {
      variable: "TARE_MAX_DATA",
      help:
        "Largest size of the sessions' file in MiB; requests that exceed it fail. Not with TARE_DATABASE. " +
        "Default: the disk's",
      ...wholeNumber(1, 100_000_000),
    },
    expireAfterDays: {
      variable: "TARE_EXPIRE_AFTER",
      help: "Days after which an idle session is deleted. Default: never; other agents' conversations: 30",
      ...wholeNumber(1, 100_000),
    },
    gatewayStoreMiB: {
      variable: "TARE_GATEWAY_STORE",
      fallback: "1024",
      help:
        "Most MiB that are stored of other agents' conversations, so that a restart sends the same bytes; off " +
        "stores no content, only metrics",
      read: (word) => word === "off" ? 0 : wholeNumber(1, 100_000_000).read(word),
      right: "off, or a whole number from 1 to 100000000",
    },
  },
  "Prompts and the gateway": {
    policy: {
      variable: "TARE_POLICY",
      fallback: "planner",
      help:
        "When content is evicted: planner, as soon as that pays; eager, sooner, for work that hardly returns to " +
        "what it read; lossless, only if the window is full; classic, at fixed triggers",
      ...oneOf(...POLICY_NAMES),
    },
    off: {
      variable: "TARE_WITHOUT",
      fallback: "",
      help:
        `Comma-separated parts to switch off: ${PARTS.join(", ")} (docs/how_it_works.md, docs/agents.md, ` +
        "docs/tools.md)",
      read(names) {
        const parts = list((name) => PARTS.some((part) => part === name))(names);
        return parts && PARTS.filter((part) => parts.includes(part));
      },
      right: `a comma-separated list of ${PARTS.join(",")}`,
    },
    keepAlive: {
      variable: "TARE_KEEP_ALIVE",
      fallback: "turns",
      help:
        "Cache keep-alive: turns, while a turn of the agent waits for tools, subagents or an answer; $0.50/day, also for " +
        "idle conversations, up to that budget; off",
      ...keepAlive(),
    },
    truncateTokens: {
      variable: "TARE_TRUNCATE_AT",
      fallback: "16000",
      help: "Longest tool result that enters a prompt without truncation, in tokens",
      ...wholeNumber(100, 100_000_000),
    },
    holdout: {
      variable: "TARE_HOLDOUT",
      fallback: "0",
      help:
        "Share of the sessions with the provider's models that are forwarded unchanged as a holdout; 1 is a dry run: the " +
        "ledger records the estimated saving",
      ...fraction(),
    },
    deferTools: {
      variable: "TARE_DEFER_TOOLS",
      fallback: "auto",
      help:
        "Deferral of other agents' MCP tools where that pays, in Messages to Anthropic's own tool search: auto, there at " +
        "Anthropic's address; on, wherever ANTHROPIC_BASE_URL points; off",
      ...oneOf("auto", "on", "off"),
    },
    forward: {
      variable: "TARE_FORWARD",
      fallback: "",
      help:
        "Comma-separated paths, subpaths included, that are forwarded to the provider with the server's key, in " +
        "addition to those of models",
      read: list((path) => /^\/v1(\/[\w.-]*\w[\w.-]*)+$/.test(path)),
      right: "comma-separated paths such as /v1/vector_stores",
    },
  },
} satisfies Record<string, Record<string, Option<unknown>>>;

const OPTIONS = {
  ...GROUPS["Models and providers"],
  ...GROUPS["Agent and tools"],
  ...GROUPS["Server and access"],
  ...GROUPS["Storage"],
  ...GROUPS["Prompts and the gateway"],
};

type Options = typeof OPTIONS;
type Value<Name extends keyof Options> = NonNullable<ReturnType<Options[Name]["read"]>>;
type Defaulted =
  | "data"
  | { [Name in keyof Options]: Options[Name] extends { fallback: string } ? Name : never }[
    keyof Options
  ];

/** All settings, with defaults. */
export type Settings =
  & { readonly [Name in Defaulted]: Value<Name> }
  & { readonly [Name in Exclude<keyof Options, Defaulted>]?: Value<Name> }
  & {
    /** Search path of the shell tool. Default: the system's. */
    readonly path?: string;
  };

/** The folder in which a task was started. Relative paths start here. */
const CALLER_FOLDER = "INIT_CWD";

/** The variables that the settings are read from. */
export const VARIABLES: readonly string[] = [
  "PATH",
  CALLER_FOLDER,
  ...HOME_VARIABLES,
  ...Object.values(OPTIONS).map(({ variable }) => variable),
];

const PREFIX = "TARE_";

/**
 * Returns the settings files for the workspace of these flags and variables, the one with precedence first.
 *
 * @throws {RangeError} if one is invalid.
 */
export function settingsFiles(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): readonly StoredVariables[] {
  const { workspace = environment.TARE_WORKSPACE } = parseFlags(args);
  const files = readSettingsFiles(environment, callersFolder({ ...environment, TARE_WORKSPACE: workspace }));
  for (const { path, values } of files) {
    const [fault] = strangeVariables(Object.keys(values));
    if (fault !== undefined) throw new RangeError(`Cannot use the settings in ${path}: ${fault}`);
  }
  return files;
}

/** Returns a warning for each variable that looks like a setting and isn't one. */
export function strangeVariables(names: readonly string[]): readonly string[] {
  const own = (names: readonly string[]) =>
    names.filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length));
  const settings = own(VARIABLES);
  return own(names).filter((name) => !settings.includes(name)).map((name) => {
    const meant = nearestName(name, settings);
    return `${PREFIX}${name} is set, but there is no such setting. ` +
      (meant === undefined ? "tare start --help all lists them." : `Did you mean ${PREFIX}${meant}?`);
  });
}

/**
 * Reads the settings. A flag overrides its variable, a variable its value in `files` (default: none), and an empty
 * variable counts as unset.
 *
 * @throws {RangeError} if a setting is invalid.
 */
export function readSettings(
  args: readonly string[],
  variables: Readonly<Record<string, string | undefined>>,
  files: readonly StoredVariables[] = [],
): Settings {
  const environment = withSettingsFiles(variables, files);
  const flags = parseFlags(args);
  /** The variable or flag of each setting that is set. */
  const sources = new Map<string, string>();
  const read = ([name, option]: [string, Option<unknown>]): [string, unknown][] => {
    const flag = flagOf(option);
    const byFlag = flag === undefined ? undefined : flags[flag];
    const set = byFlag ?? (environment[option.variable] || undefined);
    const given = set ?? option.fallback;
    if (given === undefined) return [];
    const value = option.read(given, environment[CALLER_FOLDER]);
    const source = byFlag === undefined ? option.variable : `--${flag}`;
    if (set !== undefined) sources.set(name, source);
    if (value !== undefined) return [[name, value]];
    const state = option.isSecret ? "is invalid" : `is ${JSON.stringify(given)}`;
    const file = byFlag === undefined && !variables[option.variable] &&
      files.find(({ values }) => option.variable in values);
    const place = file ? ` in ${file.path}` : "";
    throw new RangeError(`Cannot start: ${source}${place} ${state}. It must be ${option.right}.`);
  };
  const options = Object.fromEntries(Object.entries(OPTIONS).flatMap(read)) as unknown as
    & Omit<Settings, "data" | "path">
    & Partial<Pick<Settings, "data">>;
  const settings: Settings = {
    ...options,
    data: dataFolder(options, environment),
    ...(environment.PATH && { path: environment.PATH }),
  };
  const fault = faultOf(settings, sources);
  if (fault !== undefined) throw new RangeError(`Cannot start: ${fault}`);
  return settings;
}

/** Returns the first conflict between settings. */
function faultOf(settings: Settings, sources: ReadonlyMap<string, string>): string | undefined {
  const { apiKey, baseUrl, messagesKey, messagesUrl, model, effort, protocol, policy } = settings;
  const { database, archive, bucketKeyId, bucketKey } = settings;
  if (policy === "classic" && sources.has("keepAlive")) {
    const source = sources.get("keepAlive");
    return `${source} is set, but the policy classic has no keep-alive. Set another TARE_POLICY, or omit ${source}.`;
  }
  if (database !== undefined && settings.maxDataMiB !== undefined) {
    return "TARE_DATABASE and TARE_MAX_DATA are both set, but the database's own server limits its size. " +
      "Omit TARE_MAX_DATA.";
  }
  if (archive !== undefined && database === undefined) {
    return "TARE_ARCHIVE is set, but only sessions in a database have texts in a bucket. " +
      "Set TARE_DATABASE too, or omit TARE_ARCHIVE.";
  }
  if (archive !== undefined && (bucketKeyId === undefined || bucketKey === undefined)) {
    return "TARE_ARCHIVE is set without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Set them too.";
  }
  const { efforts } = model === undefined
    ? {}
    : modelProtocolOf({ model, baseURL: baseUrl ?? DEFAULT_PROVIDER.baseURL });
  if (effort !== undefined && efforts?.includes(effort) === false) {
    const right = efforts.length > 0 ? `only ${efforts.join(", ")}` : "no effort";
    return `${sources.get("effort")} is ${JSON.stringify(effort)}, but ${model} supports ${right}.`;
  }
  const hasChat = apiKey !== undefined || baseUrl !== undefined;
  if (protocol !== undefined && protocol !== "messages" && !hasChat) {
    return `${sources.get("protocol")} is ${protocol}, but no provider for it is set. Set ` +
      "OPENAI_API_KEY or OPENAI_BASE_URL too.";
  }
  const hasMessages = messagesKey !== undefined || messagesUrl !== MESSAGES_PROVIDER.baseURL;
  if (!hasChat && !hasMessages && model !== undefined) {
    return `TARE_MODEL is ${
      JSON.stringify(model)
    }, but no provider is set. Set OPENAI_API_KEY, OPENAI_BASE_URL, ` +
      "ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL, or omit TARE_MODEL to use the offline demo model.";
  }
  for (const name of ["baseUrl", "messagesUrl"] as const) {
    if (!isOwn(settings, settings[name])) continue;
    return `${OPTIONS[name].variable} is ${JSON.stringify(settings[name])}, which is this server itself. ` +
      "Set it to the provider's address; only clients use this server's.";
  }
  return undefined;
}

/** Whether an address is that of this server. */
function isOwn(
  { host, port = USUAL_PORT }: Pick<Settings, "host" | "port">,
  address: string | undefined,
): boolean {
  const { hostname, port: theirs } = URL.parse(address ?? "") ?? {};
  const hosts = ["127.0.0.1", "localhost", "[::1]", host];
  return hostname !== undefined && hosts.includes(hostname) && theirs === String(port);
}

/** Returns a row per setting with a value: variable, value (that of secrets hidden) and source. */
export function listSettings(
  variables: Readonly<Record<string, string | undefined>>,
  files: readonly StoredVariables[],
): readonly (readonly [variable: string, value: string, source: string])[] {
  return Object.values(OPTIONS).flatMap(({ variable, fallback, isSecret }: Option<unknown>) => {
    const file = files.find(({ values }) => variable in values);
    const set = variables[variable] || file?.values[variable];
    const value = set ?? fallback;
    if (!value) return [];
    const source = set === undefined ? "default" : variables[variable] ? "environment" : file!.path;
    return [[variable, isSecret ? "(hidden)" : value, source] as const];
  });
}

/** Returns why a setting can't be stored in a file; an empty value removes it. */
export function faultOfSetting(variable: string, value: string, folder: string): string | undefined {
  const fault = strangeVariables([variable])[0] ?? faultOfStored(variable, value);
  const option: Option<unknown> | undefined = Object.values(OPTIONS).find((option) =>
    option.variable === variable
  );
  if (fault !== undefined || value === "" || option === undefined) return fault;
  return option.read(value, folder) === undefined ? `it must be ${option.right}.` : undefined;
}

/** Returns the text of `--help`, with the common settings or `all` of them. */
export function settingsHelp({ all = false }: { readonly all?: boolean } = {}): string {
  const groups = Object.entries(GROUPS).map(([group, options]) => {
    const listed = Object.values(options).filter((option: Option<unknown>) => all || option.isCommon);
    const rows = listed.map((option: Option<unknown>) => ({
      variable: option.variable,
      flag: `--${flagOf(option) ?? ""}`.replace(/^--$/, ""),
      help: option.help + (option.fallback ? `. Default: ${option.fallback}` : ""),
    }));
    return { group, rows };
  }).filter(({ rows }) => rows.length > 0);
  const every = groups.flatMap(({ rows }) => rows);
  const width = (name: "variable" | "flag") => Math.max(...every.map((row) => row[name].length)) + 2;
  const lines = groups.flatMap(({ group, rows }) => [
    `\n${group}:`,
    ...rows.map(({ variable, flag, help }) =>
      `  ${variable.padEnd(width("variable"))}${flag.padEnd(width("flag"))}${help}`
    ),
  ]);
  return [
    "Starts the agent server. Each setting is a flag, an environment variable, or stored by tare settings.",
    ...lines,
    ...(all ? [""] : ["", "--help all lists every setting.", ""]),
  ].join("\n");
}

/** Returns a setting's flag. Secrets have none: other users can read a command line. */
function flagOf({ variable, flag, isSecret }: Option<unknown>): string | undefined {
  if (flag !== undefined) return flag;
  if (isSecret || !variable.startsWith(PREFIX)) return undefined;
  return variable.slice(PREFIX.length).toLowerCase().replaceAll("_", "-");
}

function parseFlags(args: readonly string[]): Readonly<Record<string, string | undefined>> {
  const flags = Object.values(OPTIONS).map(flagOf).filter((flag) => flag !== undefined);
  const options = Object.fromEntries(flags.map((flag) => [flag, { type: "string" as const }]));
  try {
    return parseArgs({ args: [...args], options, strict: true }).values;
  } catch (error) {
    const [, unknown] = /^Unknown option '--([\w-]+)/.exec((error as Error).message) ?? [];
    const meant = unknown === undefined ? undefined : nearestName(unknown, flags);
    const hint = meant === undefined ? "See --help all." : `Did you mean --${meant}?`;
    throw new RangeError(`Cannot start: ${(error as Error).message}. ${hint}`, { cause: error });
  }
}
