import { MESSAGES_PROVIDER } from "@tare/planner/internal";
import { fromFileUrl, join } from "@std/path";
import { addressesIn, filesAbove, isSameAddress, type OwnAddress, type ReadText } from "./own_addresses.ts";
import { parse } from "jsonc-parser";
import { parse as parseYaml } from "yaml";

/** The addresses under which an agent finds its providers behind a server of ours. */
export interface Behind {
  /** The server itself, which Messages go to. */
  readonly url: string;
  /** Where chat completions and responses go on to; nothing if they don't. Their address is `url` with `/v1`. */
  readonly chat?: string;
  /** Where Messages go on to. */
  readonly messages: string;
}

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A setting in a file of an agent's. */
export interface FileEntry {
  /** The names of the objects that it stands in, and its own; an object of a list goes by its `name`. */
  readonly path: readonly string[];
  readonly value: string;
}

/** A file that an agent is configured by. */
export interface AgentFile {
  /** Where it may be: the first that is there, or else the first. */
  readonly paths: readonly string[];
  readonly format: FileFormat;
  /** What is to stand in it, by what it says now; nothing if it names no provider that could be asked otherwise. */
  readonly entries: (behind: Behind, text: string) => readonly FileEntry[];
}

/** How files are written that agents are configured by. */
export type FileFormat = "json" | "json5" | "toml" | "yaml";

/** What a process is told beside what its person says. */
export interface ProcessSettings {
  readonly environment?: Readonly<Record<string, string>>;
  /** What stands in front of its arguments. */
  readonly args?: readonly string[];
}

/** How an agent is put behind a server: nothing else knows. */
export interface AgentEntry {
  /** What people call it. */
  readonly title: string;
  /** Its program. */
  readonly program: string;
  /** The version that `tests/agents` runs. */
  readonly tested: string;
  /** The names with which it asks, as the ledger tells them. */
  readonly userAgents: readonly string[];
  /** What it can't do without: chat completions or responses, or one of all protocols. */
  readonly needs: "chat" | "messages" | "any";
  /** What one process of it is told, in an environment that says what is `given`. Default: nothing, but of its file. */
  readonly told?: (behind: Behind, given: Environment) => ProcessSettings;
  /** Its file. Default: it has none for this, and can only be run. */
  readonly file?: (given: Environment) => AgentFile;
  /** How one process is told to take another file for its own. Default: `told` is enough. */
  readonly takes?: (path: string) => ProcessSettings;
  /** Addresses that its own settings name, those that outrank others first. Default: it has no such settings. */
  readonly own?: (
    given: Environment,
    where: { readonly folder: string; readonly read: ReadText },
  ) => readonly OwnAddress[];
  /** Where its login says that it is no key but a subscription with a provider of its own. Default: nowhere. */
  readonly loginProvider?: (given: Environment) => string | undefined;
}

const PI_EXTENSION = fromFileUrl(new URL("pi_extension.js", import.meta.url));

/** What Claude Code needs behind any address that isn't its provider's own; its agent SDK starts it. */
function claudeEnvironment({ url, messages }: Behind): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: url,
    // Without it, it sends the definitions of all tools of MCP servers with each call.
    ENABLE_TOOL_SEARCH: "true",
    CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: "1",
    // A number that changes with sub-agents and compaction, which only that provider takes out again.
    ...(hostOf(messages) !== hostOf(MESSAGES_PROVIDER.baseURL) && { CLAUDE_CODE_ATTRIBUTION_HEADER: "0" }),
  };
}

/** Settings of Claude Code's that an administrator writes, which outrank all others. */
const MANAGED_SETTINGS = [
  "/etc/claude-code/managed-settings.json",
  "/Library/Application Support/ClaudeCode/managed-settings.json",
];

function hostOf(address: string): string | undefined {
  return URL.parse(address)?.host;
}

/** What the providers' own SDKs look for. */
function sdkEnvironment({ url, chat }: Behind): Record<string, string> {
  return chat === undefined ? {} : { OPENAI_BASE_URL: `${url}/v1` };
}

/** Providers of an agent that has both, each with its address as that agent writes it. */
function bothProviders(
  { url, chat }: Behind,
  entry: (provider: string, url: string) => FileEntry,
  messagesUrl = url,
): FileEntry[] {
  return [...(chat === undefined ? [] : [entry("openai", `${url}/v1`)]), entry("anthropic", messagesUrl)];
}

/** An entry of an agent's file, and what it says now. */
interface Address {
  readonly path: readonly string[];
  /** Whose protocol is spoken there. */
  readonly provider: "openai" | "anthropic";
  readonly now: string | undefined;
}

/**
 * Those that can be asked behind a server: of a provider itself, where the file names no address, or where the server
 * passes on to, or the server. Both protocols stand below `/v1`.
 */
function redirected({ url, chat, messages }: Behind, addresses: readonly Address[]): FileEntry[] {
  const value = `${url}/v1`;
  return addresses.flatMap(({ path, provider, now }) => {
    const passesOn = provider === "openai" ? chat : messages;
    if (passesOn === undefined) return [];
    const isMeant = now === undefined || [url, passesOn].some((address) => isSameAddress(address, now));
    return isMeant ? [{ path, value }] : [];
  });
}

/** opencode's configuration, and that of what was made of it. */
function openCodeEntries(behind: Behind): FileEntry[] {
  return bothProviders(
    behind,
    (provider, value) => ({ path: ["provider", provider, "options", "baseURL"], value }),
    `${behind.url}/v1`,
  );
}

/** As an environment's variable, beside what stands in it. */
function openCodeContent(behind: Behind, given = "{}"): string {
  return JSON.stringify(withEntries(JSON.parse(given || "{}"), openCodeEntries(behind)));
}

function withEntries(config: Record<string, unknown>, entries: readonly FileEntry[]): unknown {
  for (const { path, value } of entries) {
    let at = config;
    for (const name of path.slice(0, -1)) at = (at[name] ??= {}) as Record<string, unknown>;
    at[path.at(-1)!] = value;
  }
  return config;
}

function openCodeFile(name: string, variable: string) {
  return (given: Environment): AgentFile => {
    const folder = join(given.XDG_CONFIG_HOME || join(home(given), ".config"), name);
    const own = given[variable];
    const paths = [`${name}.jsonc`, `${name}.json`, "config.json"].map((file) => join(folder, file));
    return { paths: own ? [own] : [paths[1]!, ...paths], format: "json", entries: openCodeEntries };
  };
}

/** The addresses in opencode's own files: of the environment, of the folder and those above, and of the user. */
function openCodeAddresses(name: string, variable: string): NonNullable<AgentEntry["own"]> {
  const places = {
    chat: ["provider", "openai", "options", "baseURL"],
    messages: ["provider", "anthropic", "options", "baseURL"],
  };
  return (given, { folder, read }) => {
    const content = `${variable}_CONTENT`;
    const names = [`${name}.jsonc`, `${name}.json`];
    const user = join(given.XDG_CONFIG_HOME || join(home(given), ".config"), name);
    const own = given[variable];
    const paths = [
      content,
      ...filesAbove(folder, [...names.map((file) => join(`.${name}`, file)), ...names]),
      ...(own ? [own] : []),
      ...[...names, "config.json"].map((file) => join(user, file)),
    ];
    const readAll = (path: string) => path === content ? given[content] || null : read(path);
    return addressesIn(paths.map((path) => ({ path, format: "json" })), places, readAll);
  };
}

function home({ HOME, USERPROFILE }: Environment): string {
  return HOME || USERPROFILE || ".";
}

/** What a JSON or YAML file says, as far as it is an object. */
function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function textIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Which protocol is spoken with which of Cline's providers. */
const CLINE_PROVIDERS = {
  "openai-native": "openai",
  "openai-compatible": "openai",
  anthropic: "anthropic",
} as const;

/** Those of its providers that are set up: one without a key or model it wouldn't read. */
function clineEntries(behind: Behind, text: string): FileEntry[] {
  const set = fields(fields(parse(text)).providers);
  return redirected(
    behind,
    Object.entries(CLINE_PROVIDERS).filter(([name]) => name in set).map(([name, provider]) => {
      const now = textIn(fields(fields(set[name]).settings).baseUrl);
      return { path: ["providers", name, "settings", "baseUrl"], provider, now };
    }),
  );
}

/** Those of Continue's models whose providers speak a protocol that is passed on. */
function continueEntries(behind: Behind, text: string): FileEntry[] {
  const { models } = fields(parseYaml(text));
  return redirected(
    behind,
    (Array.isArray(models) ? models.map(fields) : []).flatMap(({ name, provider, apiBase }) =>
      typeof name === "string" && (provider === "openai" || provider === "anthropic")
        ? [{ path: ["models", name, "apiBase"], provider, now: textIn(apiBase) }]
        : []
    ),
  );
}

/** The agents that are known by name. */
export const AGENTS: Readonly<Record<string, AgentEntry>> = {
  claude: {
    title: "Claude Code",
    program: "claude",
    tested: "2.1.330",
    userAgents: ["claude-cli"],
    needs: "messages",
    // Its settings outrank the environment: what stands there for another gateway would win.
    told: (behind) => ({
      environment: claudeEnvironment(behind),
      args: ["--settings", JSON.stringify({ env: claudeEnvironment(behind) })],
    }),
    file: (given) => ({
      paths: [join(given.CLAUDE_CONFIG_DIR || join(home(given), ".claude"), "settings.json")],
      format: "json",
      entries: (behind) =>
        Object.entries(claudeEnvironment(behind)).map(([name, value]) => ({ path: ["env", name], value })),
    }),
    own(given, { folder, read }) {
      const user = join(given.CLAUDE_CONFIG_DIR || join(home(given), ".claude"), "settings.json");
      const ofFolder = ["settings.local.json", "settings.json"].map((name) => join(folder, ".claude", name));
      const files = [...ofFolder, user].map((path) => ({ path, format: "json" as const }));
      const managed = MANAGED_SETTINGS.map((path) => ({ path, format: "json" as const, isFixed: true }));
      return addressesIn([...managed, ...files], { messages: ["env", "ANTHROPIC_BASE_URL"] }, read);
    },
  },
  codex: {
    title: "Codex",
    program: "codex",
    tested: "0.169.0",
    userAgents: ["codex_exec", "codex_cli_rs", "codex-tui"],
    needs: "chat",
    told: ({ url }) => ({ args: ["--config", `openai_base_url="${url}/v1"`] }),
    file: (given) => ({
      paths: [join(codexFolder(given), "config.toml")],
      format: "toml",
      entries: ({ url }) => [{ path: ["openai_base_url"], value: `${url}/v1` }],
    }),
    own: (given, { read }) =>
      addressesIn(
        [{ path: join(codexFolder(given), "config.toml"), format: "toml" }],
        { chat: ["openai_base_url"] },
        read,
      ),
    loginProvider(given) {
      try {
        const { tokens, OPENAI_API_KEY: key } = JSON.parse(
          Deno.readTextFileSync(join(codexFolder(given), "auth.json")),
        );
        return tokens && !key ? "https://chatgpt.com/backend-api/codex" : undefined;
      } catch {
        // Nobody has signed in, or the key stands in the environment.
        return undefined;
      }
    },
  },
  opencode: {
    title: "opencode",
    program: "opencode",
    tested: "1.18.33",
    userAgents: ["opencode"],
    needs: "any",
    told: (behind, { OPENCODE_CONFIG_CONTENT: given }) => ({
      environment: { OPENCODE_CONFIG_CONTENT: openCodeContent(behind, given) },
    }),
    file: openCodeFile("opencode", "OPENCODE_CONFIG"),
    own: openCodeAddresses("opencode", "OPENCODE_CONFIG"),
  },
  kilo: {
    title: "Kilo Code",
    program: "kilo",
    tested: "7.7.7",
    userAgents: ["opencode", "kilo"],
    needs: "any",
    told: (behind, { KILO_CONFIG_CONTENT: given }) => ({
      environment: { KILO_CONFIG_CONTENT: openCodeContent(behind, given) },
    }),
    file: openCodeFile("kilo", "KILO_CONFIG"),
    own: openCodeAddresses("kilo", "KILO_CONFIG"),
  },
  pi: {
    title: "pi",
    program: "pi",
    tested: "0.87.1",
    userAgents: ["pi"],
    needs: "any",
    told: ({ url, chat }) => ({
      environment: { TARE_PI_URL: url, ...(chat !== undefined && { TARE_PI_CHAT: "on" }) },
      args: ["--extension", PI_EXTENSION],
    }),
    file: (given) => ({
      paths: [piModels(given)],
      format: "json",
      entries: (behind) =>
        bothProviders(behind, (provider, value) => ({ path: ["providers", provider, "baseUrl"], value })),
    }),
    own: (given, { read }) =>
      addressesIn([{ path: piModels(given), format: "json" }], {
        chat: ["providers", "openai", "baseUrl"],
        messages: ["providers", "anthropic", "baseUrl"],
      }, read),
  },
  qwen: {
    title: "Qwen Code",
    program: "qwen",
    tested: "0.24.4",
    userAgents: ["QwenCode"],
    needs: "chat",
    told: (behind) => ({
      environment: sdkEnvironment(behind),
      args: ["--auth-type", "openai", "--openai-base-url", `${behind.url}/v1`],
    }),
    own: (given, { folder, read }) =>
      addressesIn(
        [folder, home(given)].map((at) => ({ path: join(at, ".qwen", "settings.json"), format: "json" })),
        { chat: ["security", "auth", "baseUrl"] },
        read,
      ),
  },
  copilot: {
    title: "Copilot CLI",
    program: "copilot",
    tested: "1.0.102",
    userAgents: ["OpenAI", "copilot"],
    needs: "chat",
    told: ({ url }, { COPILOT_PROVIDER_TYPE: type, COPILOT_PROVIDER_API_KEY: own, OPENAI_API_KEY }) => ({
      environment: {
        COPILOT_PROVIDER_BASE_URL: type === "anthropic" ? url : `${url}/v1`,
        ...(!own && type !== "anthropic" && OPENAI_API_KEY && { COPILOT_PROVIDER_API_KEY: OPENAI_API_KEY }),
      },
    }),
    own: ({ COPILOT_PROVIDER_BASE_URL: address, COPILOT_PROVIDER_TYPE: type }) =>
      address
        ? [{
          protocol: type === "anthropic" ? "messages" : "chat",
          address,
          place: "COPILOT_PROVIDER_BASE_URL",
        }]
        : [],
  },
  cline: {
    title: "Cline",
    program: "cline",
    tested: "3.0.65",
    userAgents: ["ai-sdk", "Cline"],
    needs: "any",
    file: (given) => ({
      paths: [
        given.CLINE_PROVIDER_SETTINGS_PATH ||
        join(
          given.CLINE_DATA_DIR || join(given.CLINE_DIR || join(home(given), ".cline"), "data"),
          "settings",
          "providers.json",
        ),
      ],
      format: "json",
      entries: clineEntries,
    }),
    takes: (path) => ({ environment: { CLINE_PROVIDER_SETTINGS_PATH: path } }),
  },
  continue: {
    title: "Continue",
    program: "cn",
    tested: "1.5.47",
    userAgents: ["node-fetch", "ls"],
    needs: "any",
    file: (given) => ({
      paths: [join(given.CONTINUE_GLOBAL_DIR || join(home(given), ".continue"), "config.yaml")],
      format: "yaml",
      entries: continueEntries,
    }),
    takes: (path) => ({ args: ["--config", path] }),
  },
  openclaw: {
    title: "OpenClaw",
    program: "openclaw",
    tested: "2026.7.33",
    userAgents: ["OpenAI", "undici"],
    needs: "any",
    file: (given) => ({
      paths: [openClawFile(given)],
      format: "json5",
      entries: (behind) => {
        const of = (provider: string, name: string, value: string) => ({
          path: ["models", "providers", provider, name],
          value,
        });
        return [
          ...bothProviders(behind, (provider, url) => of(provider, "baseUrl", url)),
          // At any address but its provider's own it would speak chat completions.
          of("anthropic", "api", "anthropic-messages"),
        ];
      },
    }),
    takes: (path) => ({ environment: { OPENCLAW_CONFIG_PATH: path } }),
    own: (given, { read }) =>
      addressesIn([{ path: openClawFile(given), format: "json5" }], {
        chat: ["models", "providers", "openai", "baseUrl"],
        messages: ["models", "providers", "anthropic", "baseUrl"],
      }, read),
  },
};

/** What any program gets that uses the providers' own SDKs, agent SDKs among them. */
export const ANY_PROGRAM: Pick<AgentEntry, "needs" | "told"> = {
  needs: "any",
  told: (behind) => ({ environment: { ...claudeEnvironment(behind), ...sdkEnvironment(behind) } }),
};

function codexFolder(given: Environment): string {
  return given.CODEX_HOME || join(home(given), ".codex");
}

function piModels(given: Environment): string {
  return join(given.PI_CODING_AGENT_DIR || join(home(given), ".pi", "agent"), "models.json");
}

function openClawFile(given: Environment): string {
  const folder = given.OPENCLAW_STATE_DIR || join(given.OPENCLAW_HOME || home(given), ".openclaw");
  return given.OPENCLAW_CONFIG_PATH || join(folder, "openclaw.json");
}
