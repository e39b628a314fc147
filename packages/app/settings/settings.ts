import { LIMIT_OPTIONS } from "../listener/listen_http.ts";
import { dataFolder, HOME_VARIABLES, isDirectory, USUAL_PORT, wholeNumber } from "@tare/cli/parts";
import { PROFILES } from "@tare/planner";
import { DEFAULT_PROVIDER, howToAsk, MESSAGES_PROVIDER, MODELS_DATE } from "@tare/planner/internal";
import { POLICIES, type PolicyOptions } from "@tare/planner/policies";
import { distance } from "fastest-levenshtein";
import { parseArgs } from "node:util";
import { checkDatabaseLimits, DATABASE_OPTIONS } from "./database.ts";
import {
  address,
  bucket,
  fraction,
  fromFolder,
  keepWarm,
  list,
  onOrOff,
  type Option,
  price,
  providersModel,
  readApprovals,
  readInstructions,
  readMcpFile,
  readProfile,
  text,
} from "./option.ts";

/** Each mechanism has a flag that switches it off. */
const MECHANISMS = {
  context: "Send all old turns with every call of a tool loop",
  prune: "Never replace old tool results by placeholders",
  schemas: "Send every tool's full schema with every call",
  truncate: "Send huge tool results whole",
  references: "Never send a reference to a block that the prompt shows already",
  notation: "Send each line's number, terminal codes and paths that repeat",
} as const;

const FORGET = ["costly", "nothing"] as const;

const METRICS = ["off", "key", "open"] as const;

const PROTOCOLS = ["responses", "chat", "messages"] as const;

const DEFER_TOOLS = ["auto", "on", "off"] as const;

const POLICY_NAMES = Object.keys(POLICIES) as NonNullable<PolicyOptions["policy"]>[];

/** Name of a mechanism. */
type Mechanism = keyof typeof MECHANISMS;

/** What can stand in a header. */
const KEY = {
  read: (key: string) => /^[\x21-\x7e]+$/.test(key) ? key : undefined,
  right: "printable ASCII without spaces and line breaks",
};

/** What can be configured, but for the mechanisms. */
const OPTIONS = {
  host: {
    variable: "TARE_HOST",
    flag: "host",
    fallback: "127.0.0.1",
    help: "Address to listen on",
    read: text,
  },
  port: {
    variable: "TARE_PORT",
    flag: "port",
    help: `Port to listen on; 0 takes a free one. Default: ${USUAL_PORT}, or a free one where that is taken`,
    ...wholeNumber(0, 65535),
  },
  workspace: {
    variable: "TARE_WORKSPACE",
    flag: "workspace",
    fallback: ".",
    help: "The folder that the tools may touch",
    read: (path, from) => isDirectory(fromFolder(path, from)) ? fromFolder(path, from) : undefined,
    right: "a folder that exists",
  },
  data: {
    variable: "TARE_DATA",
    flag: "data",
    help: "The folder where sessions are kept. Default: one for each workspace in your data directory",
    read: fromFolder,
  },
  ...DATABASE_OPTIONS,
  archive: {
    variable: "TARE_ARCHIVE",
    isSecret: true,
    help:
      "A bucket for large texts of the sessions in the database (docs/many_servers.md), as s3://bucket/prefix?region=eu-central-1, with &endpoint=https://… for one that isn't Amazon's. Default: they are in the database",
    ...bucket(),
  },
  bucketKeyId: {
    variable: "AWS_ACCESS_KEY_ID",
    isSecret: true,
    help: "Who uses the bucket of TARE_ARCHIVE",
    read: text,
  },
  bucketKey: {
    variable: "AWS_SECRET_ACCESS_KEY",
    isSecret: true,
    help: "The secret that goes with it",
    read: text,
  },
  bucketToken: {
    variable: "AWS_SESSION_TOKEN",
    isSecret: true,
    help: "The token that goes with credentials that hold for a while",
    read: text,
  },
  bucketRegion: {
    variable: "AWS_REGION",
    help: "The bucket's region, where TARE_ARCHIVE doesn't name it",
    read: text,
  },
  instructions: {
    variable: "TARE_INSTRUCTIONS",
    flag: "instructions",
    help:
      "A Markdown file in place of what the agent is told first (docs/prompt.md); tare prompt shows what that is. Default: packages/app/prompt/instructions.md",
    read: readInstructions,
    right: "a file that exists",
  },
  mcp: {
    variable: "TARE_MCP",
    flag: "mcp",
    help: "A JSON file whose mcpServers name the MCP servers that the agent may use",
    read: readMcpFile,
    right: "a file such as mcp.json",
  },
  approvals: {
    variable: "TARE_APPROVALS",
    flag: "approvals",
    help:
      "A file of rules, a list in JSON, of what tools may do, have to be asked for, or may not do; allow lets all run. Default: what only reads may run, all else is asked for",
    read: readApprovals,
    right: "a file that exists, or allow",
  },
  sandbox: {
    variable: "TARE_SANDBOX",
    flag: "sandbox",
    fallback: "on",
    help:
      "Whether commands and the programs of MCP servers run in a sandbox (docs/security.md): on, where one can be made; strict, or there is no start; off",
    read: (word) => word === "on" || word === "off" || word === "strict" ? word : undefined,
    right: "on, off or strict",
  },
  allowDomains: {
    variable: "TARE_ALLOW_DOMAINS",
    flag: "allow-domains",
    fallback: "",
    help:
      "Hosts that commands reach from the sandbox unasked, with commas between them; *.example.com for those below. Default: none",
    read: list((host) => /^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*$/i.test(host)),
    right: "names of hosts such as registry.npmjs.org,*.example.com, with commas between them",
  },
  unattended: {
    variable: "TARE_UNATTENDED",
    flag: "unattended",
    fallback: "deny",
    help:
      "What happens to calls that have to be asked for where nobody can be, as for the agent as a model: deny, allow",
    read: (word) => word === "deny" || word === "allow" ? word : undefined,
    right: "deny or allow",
  },
  answerWithinMinutes: {
    variable: "TARE_ANSWER_WITHIN",
    flag: "answer-within",
    fallback: "1440",
    help: "Minutes after which it is no where nobody answers whether a call may run",
    ...wholeNumber(1, 30_000),
  },
  unknownOutcome: {
    variable: "TARE_UNKNOWN_OUTCOME",
    flag: "unknown-outcome",
    fallback: "tell",
    help:
      "What becomes of a call that ran when the server ended, as its turn goes on: tell the model that nobody knows what came of it; ask whether to make it once more; or repeat it if its tool only reads or declares that this does no harm",
    read: (word) => word === "tell" || word === "ask" || word === "repeat" ? word : undefined,
    right: "tell, ask or repeat",
  },
  endWithinSeconds: {
    variable: "TARE_END_WITHIN",
    flag: "end-within",
    fallback: "20",
    help:
      "Seconds that steps have to end on SIGTERM; a turn that takes longer is left in its middle, and whoever has the sessions next goes on with it",
    ...wholeNumber(0, 3_600),
  },
  maxSessions: {
    variable: "TARE_MAX_SESSIONS",
    flag: "max-sessions",
    fallback: "10000",
    help: "Most sessions kept, those of chats with the agent included; no more are made then",
    ...wholeNumber(1, 100_000_000),
  },
  maxRunningTurns: {
    variable: "TARE_MAX_TURNS",
    flag: "max-turns",
    fallback: "100",
    help:
      "Most turns that run at the same time, helpers' included; one more waits half a minute, or as long as it takes in the background",
    ...wholeNumber(1, 1_000_000),
  },
  maxSteps: {
    variable: "TARE_MAX_STEPS",
    flag: "max-steps",
    fallback: "500",
    help: "Most model calls of a turn: a guard against runaways. What is said next goes on from there",
    ...wholeNumber(1, 100_000),
  },
  maxQueuedTurns: {
    variable: "TARE_MAX_QUEUED",
    flag: "max-queued",
    fallback: "1000",
    help:
      "Most turns that wait in the background, over all servers of a database; one more is refused with 429",
    ...wholeNumber(1, 100_000),
  },
  maxDataMiB: {
    variable: "TARE_MAX_DATA",
    flag: "max-data",
    help:
      "MiB that the sessions' file may take; nothing more is taken then. Default: what the disk has. Not with TARE_DATABASE",
    ...wholeNumber(1, 100_000_000),
  },
  expireAfterDays: {
    variable: "TARE_EXPIRE_AFTER",
    flag: "expire-after",
    help:
      "Days after which a session in which nothing happens is deleted. Default: never; what is kept of other agents' conversations: 30",
    ...wholeNumber(1, 100_000),
  },
  gatewayStoreMiB: {
    variable: "TARE_GATEWAY_STORE",
    flag: "gateway-store",
    fallback: "1024",
    help:
      "MiB that may be kept of other agents' conversations, so that a restart sends the same bytes; off: nothing of what was said is kept, only figures",
    read: (word) => word === "off" ? 0 : wholeNumber(1, 100_000_000).read(word),
    right: "off, or a whole number from 1 to 100000000",
  },
  token: {
    variable: "TARE_TOKEN",
    isSecret: true,
    help:
      "The owner's key, in place of the one in the data folder; with it each request must carry a key (Authorization: Bearer …). Needed if other machines can reach TARE_HOST",
    ...KEY,
  },
  allowedHosts: {
    variable: "TARE_ALLOWED_HOSTS",
    flag: "allowed-hosts",
    fallback: "",
    help: "Names under which requests may reach the server beside its own, with commas between them",
    read: list((host) => URL.parse(`http://${host}`)?.host === host.toLowerCase()),
    right: "host names such as agent.example, with commas between them",
  },
  corsOrigins: {
    variable: "TARE_CORS_ORIGINS",
    flag: "cors-origins",
    fallback: "",
    help: "Origins whose web pages may use the server, with commas between them",
    read: list((origin) => /^https?:/.test(origin) && URL.parse(origin)?.origin === origin),
    right: "origins such as https://chat.example, with commas between them",
  },
  webhookHosts: {
    variable: "TARE_WEBHOOK_HOSTS",
    flag: "webhook-hosts",
    fallback: "",
    help:
      "Hosts that webhooks may tell of turns (docs/webhooks.md), with a port or without, with commas between them; * for all public ones by HTTPS. Default: none, and no webhooks",
    read: list((host) => /^(\*|([a-z0-9_.-]+|\[[0-9a-f:]+\])(:\d{1,5})?)$/.test(host)),
    right: "host names in lower case such as hooks.example,127.0.0.1:9000, with commas between them, or *",
  },
  metrics: {
    variable: "TARE_METRICS",
    flag: "metrics",
    fallback: "off",
    help:
      "Whether GET /metrics gives figures for Prometheus (docs/telemetry.md): key, to the owner and to keys that were added with --routes metrics; open, to whoever reaches the server; off",
    read: (who) => METRICS.find((one) => one === who),
    right: `one of ${METRICS.join(", ")}`,
  },
  ...LIMIT_OPTIONS,
  forward: {
    variable: "TARE_FORWARD",
    flag: "forward",
    fallback: "",
    help:
      "Paths that go to the provider with the server's key beside those that models are used with, and what is below them, with commas between them",
    read: list((path) => /^\/v1(\/[\w.-]*\w[\w.-]*)+$/.test(path)),
    right: "paths such as /v1/vector_stores, with commas between them",
  },
  apiKey: {
    variable: "OPENAI_API_KEY",
    isSecret: true,
    help: "Key of the provider; without any key and base URL a rehearsal model answers",
    ...KEY,
  },
  baseUrl: {
    variable: "OPENAI_BASE_URL",
    flag: "base-url",
    help: `Address of an OpenAI-compatible provider. Default with a key: ${DEFAULT_PROVIDER.baseURL}`,
    read: address,
    right: "an address such as https://host/v1",
  },
  messagesKey: {
    variable: "ANTHROPIC_API_KEY",
    isSecret: true,
    help: "Key for requests to /v1/messages (default: each client's own), and for the agent on Claude",
    ...KEY,
  },
  messagesUrl: {
    variable: "ANTHROPIC_BASE_URL",
    flag: "messages-url",
    fallback: MESSAGES_PROVIDER.baseURL,
    help: "Address of the provider that requests to /v1/messages go to, and the agent's for Claude",
    read: address,
    right: `an address such as ${MESSAGES_PROVIDER.baseURL}`,
  },
  model: {
    variable: "TARE_MODEL",
    flag: "model",
    help:
      "The provider's name for the agent's model; without it a provider is the gateway's alone. Names such as claude-… go to ANTHROPIC_BASE_URL if there is a key for it, all names if there is no other provider",
    ...providersModel,
  },
  effort: {
    variable: "TARE_EFFORT",
    flag: "effort",
    help:
      "How much the agent's model shall reason, such as low, medium or high; sessions and turns may say otherwise, and models that don't know it go by their own. Default: as the model likes",
    read: (word) => /^[a-z]{1,20}$/.test(word) ? word : undefined,
    right: "a word such as low, medium or high",
  },
  protocol: {
    variable: "TARE_PROTOCOL",
    flag: "protocol",
    help:
      "How the agent's models are asked: responses or chat, at OPENAI_BASE_URL; messages, all at ANTHROPIC_BASE_URL. Default: responses at OpenAI's own address, else chat; claude-… by messages where there is a key for that",
    read: (name) => PROTOCOLS.find((one) => one === name),
    right: "one of responses, chat, messages",
  },
  profile: {
    variable: "TARE_PROFILE",
    flag: "profile",
    help: `Cache rules and prices: ${Object.keys(PROFILES).join(", ")}. Default: by base URL and model`,
    read: (name) => Object.hasOwn(PROFILES, name) ? name : undefined,
    right: `one of ${Object.keys(PROFILES).join(", ")}`,
  },
  profileFile: {
    variable: "TARE_PROFILE_FILE",
    flag: "profile-file",
    help: "A file of cache rules and prices in place of TARE_PROFILE, such as deno task probe:cache writes",
    read: readProfile,
    right: "a file that exists",
  },
  price: {
    variable: "TARE_PRICE",
    flag: "price",
    help:
      `What the model costs, as input=3,output=15. Default: the file's price, else the list price of ${MODELS_DATE}`,
    ...price(),
  },
  policy: {
    variable: "TARE_POLICY",
    flag: "policy",
    fallback: "planner",
    help: `When a prompt is rewritten: ${
      Object.entries(POLICIES).map(([name, when]) => `${name}, ${when}`).join("; ")
    }`,
    read: (name) => POLICY_NAMES.find((policy) => policy === name),
    right: `one of ${POLICY_NAMES.join(", ")}`,
  },
  historyBudgetTokens: {
    variable: "TARE_HISTORY_BUDGET",
    flag: "history-budget",
    fallback: "16000",
    help: "Tokens that old turns may take from the second call of a turn on",
    policy: "classic",
    ...wholeNumber(0, 100_000_000),
  },
  protectTokens: {
    variable: "TARE_PROTECTED_TAIL",
    flag: "protected-tail",
    fallback: "16384",
    help: "Tokens at the end, at most half the window, in which no tool result is pruned",
    policy: "classic",
    ...wholeNumber(0, 100_000_000),
  },
  minBytes: {
    variable: "TARE_MIN_RESULT",
    flag: "min-result",
    fallback: "1024",
    help: "Bytes of the smallest tool result that is pruned",
    policy: "classic",
    ...wholeNumber(0, 100_000_000),
  },
  pruneAt: {
    variable: "TARE_PRUNE_AT",
    flag: "prune-at",
    fallback: "0.8",
    help: "Share of the window from which on old tool results are pruned",
    policy: "classic",
    ...fraction(),
  },
  summariseAt: {
    variable: "TARE_SUMMARISE_AT",
    flag: "summarise-at",
    fallback: "0.9",
    help: "Share of the window from which on old turns give way to a summary, whatever pruning gave",
    policy: "classic",
    ...fraction(),
  },
  coldAfterMinutes: {
    variable: "TARE_COLD_AFTER",
    flag: "cold-after",
    help:
      "Minutes without a call after which the provider's cache is taken for gone. Default: by the provider's profile",
    policy: "classic",
    ...wholeNumber(0, 100_000_000),
  },
  forget: {
    variable: "TARE_FORGET",
    flag: "forget",
    fallback: "costly",
    help:
      "What leaves a prompt: costly, what costs more than it is worth; nothing, as long as the window isn't full",
    policy: "planner",
    read: (name) => FORGET.find((one) => one === name),
    right: `one of ${FORGET.join(", ")}`,
  },
  keepWarm: {
    variable: "TARE_KEEP_WARM",
    flag: "keep-warm",
    fallback: "turns",
    help:
      "When the provider's cache is kept warm: turns, while one of the agent waits for tools, helpers or an answer; " +
      "$0.50/day, for idle conversations too, for that at most; or off",
    policy: "planner",
    ...keepWarm(),
  },
  truncateTokens: {
    variable: "TARE_TRUNCATE_AT",
    flag: "truncate-at",
    fallback: "16000",
    help: "Tokens of the longest tool result that enters a prompt whole",
    ...wholeNumber(100, 100_000_000),
  },
  alwaysFull: {
    variable: "TARE_ALWAYS_FULL",
    flag: "always-full",
    fallback: "",
    help: "Names of tools whose schema is always shown in full, with commas between them",
    read: list((name) => /^[\w.-]{1,64}$/.test(name)),
    right: "names of tools such as read_file, with commas between them",
  },
  windowTokens: {
    variable: "TARE_WINDOW",
    flag: "window",
    help:
      "The models' context window in tokens. Default: what the provider says, else what is published of the model",
    ...wholeNumber(1000, 100_000_000),
  },
  captureContent: {
    variable: "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
    help: "Whether telemetry holds what was said (docs/telemetry.md): true or false. Default: false",
    // As every value is, that isn't one of those by which others capture it in spans.
    read: (value: string) => /^(true|span_only|span_and_event)$/i.test(value),
  },
  recall: {
    variable: "TARE_RECALL",
    flag: "recall",
    fallback: "on",
    help:
      "Whether requests for the provider's models get a tool to read back what left their prompts: on, off",
    ...onOrOff(),
  },
  deferTools: {
    variable: "TARE_DEFER_TOOLS",
    flag: "defer-tools",
    fallback: "auto",
    help:
      "Whether servers' tools of other agents are deferred where that pays, for Claude to find them by Anthropic's own " +
      "search: auto, at Anthropic's address; on, wherever ANTHROPIC_BASE_URL points; off",
    read: (name) => DEFER_TOOLS.find((one) => one === name),
    right: `one of ${DEFER_TOOLS.join(", ")}`,
  },
  delegate: {
    variable: "TARE_DELEGATE",
    flag: "delegate",
    fallback: "off",
    help: "Whether the agent may give tasks to helpers in sessions that don't name their tools: on, off",
    ...onOrOff(),
  },
  programs: {
    variable: "TARE_PROGRAMS",
    flag: "programs",
    fallback: "on",
    help:
      "Whether the agent may write programs that call its tools (docs/programs.md), in sessions that don't name their tools: on, off",
    ...onOrOff(),
  },
  observe: {
    variable: "TARE_OBSERVE",
    flag: "observe",
    fallback: "off",
    help:
      "Whether sessions with the provider's models are sent on as they are, and the ledger tells what would have been saved: on, off",
    ...onOrOff(),
  },
  control: {
    variable: "TARE_CONTROL",
    flag: "control",
    fallback: "0",
    help: "Share of the sessions with the provider's models that are sent on as they are, to compare with",
    ...fraction(),
  },
} satisfies Record<string, Option<unknown>>;

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
 * What people are told of variables that look like settings and are none, a sentence each: with the setting that was
 * probably meant, whose name differs in two letters or a third of them at most.
 */
export function strangeVariables(names: readonly string[]): readonly string[] {
  const settings = VARIABLES.filter((name) => name.startsWith(PREFIX));
  return names.filter((name) => name.startsWith(PREFIX) && !settings.includes(name)).map((name) => {
    const [word, ...words] = [name, ...settings].map((one) => one.slice(PREFIX.length));
    const near = words.map((other) => ({ other, edits: distance(word!, other) }))
      .filter(({ other, edits }) => edits < other.length && edits <= Math.max(2, other.length / 3))
      .sort((a, b) => a.edits - b.edits)[0];
    return `${name} is set, but there is no such setting. ` +
      (near ? `Did you mean ${PREFIX}${near.other}?` : "tare start --help lists them.");
  });
}

const PREFIX = "TARE_";

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
  for (const name of Object.keys(DATABASE_OPTIONS)) {
    const source = sources.get(name);
    if (source === undefined || settings.database !== undefined) continue;
    throw new RangeError(
      `Cannot start: ${source} is set, but no database is. Set TARE_DATABASE, or leave ${source} out.`,
    );
  }
  checkDatabaseLimits(settings);
  if (settings.database !== undefined && settings.maxDataMiB !== undefined) {
    throw new RangeError(
      "Cannot start: TARE_DATABASE and TARE_MAX_DATA are both set, but how large a database may become is decided " +
        "where it runs. Leave TARE_MAX_DATA out.",
    );
  }
  if (settings.archive !== undefined) checkArchive(settings);
  if (pruneAt > summariseAt) {
    throw new RangeError(
      `Cannot start: TARE_PRUNE_AT is ${pruneAt} and TARE_SUMMARISE_AT is ${summariseAt}, but results must be pruned ` +
        "before turns are summarised: the first must not be larger than the second.",
    );
  }
  const { effort, protocol } = settings;
  const { efforts } = model === undefined
    ? {}
    : howToAsk({ model, baseURL: baseUrl ?? DEFAULT_PROVIDER.baseURL });
  if (effort !== undefined && efforts?.includes(effort) === false) {
    const right = efforts.length > 0 ? `the efforts ${efforts.join(", ")}` : "no effort to choose";
    const state = `is ${JSON.stringify(effort)}, but ${model} has ${right}.`;
    throw new RangeError(`Cannot start: ${sources.get("effort")} ${state}`);
  }
  if (protocol !== undefined && protocol !== "messages" && apiKey === undefined && baseUrl === undefined) {
    throw new RangeError(
      `Cannot start: ${sources.get("protocol")} is ${protocol}, but no provider is set that speaks it. Set ` +
        "OPENAI_API_KEY or OPENAI_BASE_URL too.",
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

/** @throws {RangeError} if a bucket is named that can't be used. */
function checkArchive(
  { archive, database, bucketKeyId, bucketKey, bucketRegion }: Omit<Settings, "data" | "off" | "path">,
): void {
  if (database === undefined) {
    throw new RangeError(
      "Cannot start: TARE_ARCHIVE is set, but only sessions in a database have texts in a bucket; a file holds all of " +
        "its own. Set TARE_DATABASE too, or leave TARE_ARCHIVE out.",
    );
  }
  const lacking = [
    ...bucketKeyId === undefined ? ["AWS_ACCESS_KEY_ID"] : [],
    ...bucketKey === undefined ? ["AWS_SECRET_ACCESS_KEY"] : [],
    ...(archive?.region ?? bucketRegion) === undefined ? ["AWS_REGION (or region in TARE_ARCHIVE)"] : [],
  ];
  if (lacking.length === 0) return;
  throw new RangeError(`Cannot start: TARE_ARCHIVE is set, and without ${lacking.join(", ")}. Set them too.`);
}

/** Whether requests to an address would come back to the server. */
function isOwn(
  { host, port = USUAL_PORT }: Pick<Settings, "host" | "port">,
  address: string | undefined,
): boolean {
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
