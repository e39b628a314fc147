import { MESSAGES_PROVIDER } from "@tare/planner/internal";
import { fromFileUrl, join } from "@std/path";
import { parse } from "jsonc-parser";
import { parse as parseYaml } from "yaml";
import { type FileEntry, type FileFormat, withEntries } from "./file_entries.ts";
import { filesAbove, isSameAddress, type ProviderProtocol, type SettingsFile } from "./own_providers.ts";

/** Addresses that an agent uses instead of its providers'. */
export interface GatewayAddresses {
  /** Address of the server, also of Messages; chat completions and responses are below `/v1`. */
  readonly url: string;
  /** Provider that chat completions and responses are forwarded to; absent if they aren't. */
  readonly chat?: string;
  /** Provider that Messages are forwarded to. */
  readonly messages: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface AgentFile {
  readonly paths: readonly string[];
  readonly format: FileFormat;
  /** Returns the entries to write; none without a provider to redirect. */
  readonly entries: (gateway: GatewayAddresses, text: string) => readonly FileEntry[];
}

export interface ProcessSettings {
  readonly environment?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
}

export interface AgentEntry {
  readonly title: string;
  readonly program: string;
  readonly tested: string;
  /** Names of the agent in the ledger, from its User-Agent header. */
  readonly userAgents: readonly string[];
  /** Required protocol: chat completions or responses (`chat`), Messages, or either. */
  readonly needs: "chat" | "messages" | "any";
  readonly settingsFor?: (gateway: GatewayAddresses, given: Environment) => ProcessSettings;
  /** Returns its configuration file. Default: none, so that it can't be wrapped. */
  readonly file?: (given: Environment) => AgentFile;
  /** Returns settings with which a process reads another file. Default: none. */
  readonly takes?: (path: string) => ProcessSettings;
  readonly addresses?: Addresses;
  /** Returns files that may contain them, in order of precedence. Default: its file. */
  readonly settings?: (given: Environment, folder: string) => readonly SettingsFile[];
  /** Returns the provider of a subscription's login. Default: none. */
  readonly loginProvider?: (given: Environment) => string | undefined;
}

type Addresses = Readonly<Partial<Record<ProviderProtocol, readonly string[]>>>;

/** Returns variables of Claude Code, which its agent SDK starts too. */
function claudeEnvironment({ url, messages }: GatewayAddresses): Record<string, string> {
  const isProvider = URL.parse(messages)?.host === URL.parse(MESSAGES_PROVIDER.baseURL)?.host;
  return {
    ANTHROPIC_BASE_URL: url,
    // Otherwise each request contains the definitions of all MCP tools.
    ENABLE_TOOL_SEARCH: "true",
    CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: "1",
    // This header of the prompt varies and would break the cache; only Anthropic's API removes it.
    ...(!isProvider && { CLAUDE_CODE_ATTRIBUTION_HEADER: "0" }),
  };
}

function sdkEnvironment({ url, chat }: GatewayAddresses): Record<string, string> {
  return chat === undefined ? {} : { OPENAI_BASE_URL: `${url}/v1` };
}

function addressEntries(
  { url, chat }: GatewayAddresses,
  addresses: Addresses,
  messagesUrl = url,
): FileEntry[] {
  return [
    ...(addresses.chat && chat !== undefined ? [{ path: addresses.chat, value: `${url}/v1` }] : []),
    ...(addresses.messages ? [{ path: addresses.messages, value: messagesUrl }] : []),
  ];
}

interface Address {
  readonly path: readonly string[];
  readonly protocol: ProviderProtocol;
  readonly now: unknown;
}

/** Returns entries for missing addresses, the server's own, and those that it forwards to. */
function redirected(gateway: GatewayAddresses, addresses: readonly Address[]): FileEntry[] {
  return addresses.flatMap(({ path, protocol, now }) => {
    const to = gateway[protocol];
    if (to === undefined) return [];
    const isMeant = typeof now !== "string" ||
      [gateway.url, to].some((address) => isSameAddress(address, now));
    return isMeant ? [{ path, value: `${gateway.url}/v1` }] : [];
  });
}

function home({ HOME, USERPROFILE }: Environment): string {
  return HOME || USERPROFILE || ".";
}

function fields(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function simpleFile(
  format: FileFormat,
  { addresses, path }: {
    readonly addresses: Addresses;
    readonly path: (given: Environment) => string;
  },
): Pick<Required<AgentEntry>, "addresses" | "file"> {
  const entries = (gateway: GatewayAddresses) => addressEntries(gateway, addresses);
  return { addresses, file: (given) => ({ paths: [path(given)], format, entries }) };
}

function openCode(name: string, variable: string) {
  const addresses = {
    chat: ["provider", "openai", "options", "baseURL"],
    messages: ["provider", "anthropic", "options", "baseURL"],
  };
  const entries = (gateway: GatewayAddresses) => addressEntries(gateway, addresses, `${gateway.url}/v1`);
  const content = `${variable}_CONTENT`;
  const names = [`${name}.jsonc`, `${name}.json`];
  const userFolder = (given: Environment) =>
    join(given.XDG_CONFIG_HOME || join(home(given), ".config"), name);
  return {
    addresses,
    settingsFor: (gateway, given) => ({
      environment: { [content]: withEntries(given[content] || "{}", "json", entries(gateway)) },
    }),
    file: (given) => ({
      paths: given[variable]
        ? [given[variable]]
        : [...names.toReversed(), "config.json"].map((file) => join(userFolder(given), file)),
      format: "json",
      entries,
    }),
    settings: (given, folder) => [
      { path: content, format: "json", text: given[content] || null },
      ...[
        ...filesAbove(folder, [...names.map((file) => join(`.${name}`, file)), ...names]),
        ...(given[variable] ? [given[variable]] : []),
        ...[...names, "config.json"].map((file) => join(userFolder(given), file)),
      ].map((path) => ({ path, format: "json" as const })),
    ],
  } satisfies Partial<AgentEntry>;
}

const PI_EXTENSION = fromFileUrl(new URL("pi_extension.js", import.meta.url));

/** Settings of Claude Code that an administrator manages, which override all others. */
const MANAGED_SETTINGS = [
  "/etc/claude-code/managed-settings.json",
  "/Library/Application Support/ClaudeCode/managed-settings.json",
];

function claudeFile(given: Environment): string {
  return join(given.CLAUDE_CONFIG_DIR || join(home(given), ".claude"), "settings.json");
}

function codexFolder(given: Environment): string {
  return given.CODEX_HOME || join(home(given), ".codex");
}

function clineFolder(given: Environment): string {
  return given.CLINE_DATA_DIR || join(given.CLINE_DIR || join(home(given), ".cline"), "data");
}

function openClawFolder(given: Environment): string {
  return given.OPENCLAW_STATE_DIR || join(given.OPENCLAW_HOME || home(given), ".openclaw");
}

const CLINE_PROVIDERS = {
  "openai-native": "chat",
  "openai-compatible": "chat",
  anthropic: "messages",
} as const;

export const AGENTS: Readonly<Record<string, AgentEntry>> = {
  claude: {
    title: "Claude Code",
    program: "claude",
    tested: "2.1.332",
    userAgents: ["claude-cli"],
    needs: "messages",
    // Its settings override the environment and may name another gateway.
    settingsFor: (gateway) => ({
      environment: claudeEnvironment(gateway),
      args: ["--settings", JSON.stringify({ env: claudeEnvironment(gateway) })],
    }),
    file: (given) => ({
      paths: [claudeFile(given)],
      format: "json",
      entries: (gateway) =>
        Object.entries(claudeEnvironment(gateway)).map(([name, value]) => ({ path: ["env", name], value })),
    }),
    addresses: { messages: ["env", "ANTHROPIC_BASE_URL"] },
    settings: (given, folder) => [
      ...MANAGED_SETTINGS.map((path) => ({ path, format: "json" as const, isFixed: true })),
      ...[
        ...["settings.local.json", "settings.json"].map((name) => join(folder, ".claude", name)),
        claudeFile(given),
      ].map((path) => ({ path, format: "json" as const })),
    ],
  },
  codex: {
    title: "Codex",
    program: "codex",
    tested: "0.171.0",
    userAgents: ["codex_exec", "codex_cli_rs", "codex-tui"],
    needs: "chat",
    settingsFor: ({ url }) => ({ args: ["--config", `openai_base_url="${url}/v1"`] }),
    ...simpleFile("toml", {
      addresses: { chat: ["openai_base_url"] },
      path: (given) => join(codexFolder(given), "config.toml"),
    }),
    loginProvider(given) {
      try {
        const { tokens, OPENAI_API_KEY: key } = JSON.parse(
          Deno.readTextFileSync(join(codexFolder(given), "auth.json")),
        );
        return tokens && !key ? "https://chatgpt.com/backend-api/codex" : undefined;
      } catch {
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
    ...openCode("opencode", "OPENCODE_CONFIG"),
  },
  kilo: {
    title: "Kilo Code",
    program: "kilo",
    tested: "7.7.7",
    userAgents: ["opencode", "kilo"],
    needs: "any",
    ...openCode("kilo", "KILO_CONFIG"),
  },
  pi: {
    title: "pi",
    program: "pi",
    tested: "0.87.1",
    userAgents: ["pi"],
    needs: "any",
    settingsFor: ({ url, chat }) => ({
      environment: { TARE_PI_URL: url, ...(chat !== undefined && { TARE_PI_CHAT: "on" }) },
      args: ["--extension", PI_EXTENSION],
    }),
    ...simpleFile("json", {
      addresses: {
        chat: ["providers", "openai", "baseUrl"],
        messages: ["providers", "anthropic", "baseUrl"],
      },
      path: (given) => join(given.PI_CODING_AGENT_DIR || join(home(given), ".pi", "agent"), "models.json"),
    }),
  },
  qwen: {
    title: "Qwen Code",
    program: "qwen",
    tested: "0.24.4",
    userAgents: ["QwenCode"],
    needs: "chat",
    settingsFor: (gateway) => ({
      environment: sdkEnvironment(gateway),
      args: ["--auth-type", "openai", "--openai-base-url", `${gateway.url}/v1`],
    }),
    addresses: { chat: ["security", "auth", "baseUrl"] },
    settings: (given, folder) =>
      [folder, home(given)].map((at) => ({ path: join(at, ".qwen", "settings.json"), format: "json" })),
  },
  copilot: {
    title: "Copilot CLI",
    program: "copilot",
    tested: "1.0.102",
    userAgents: ["OpenAI", "copilot"],
    needs: "chat",
    settingsFor: (
      { url },
      { COPILOT_PROVIDER_TYPE: type, COPILOT_PROVIDER_API_KEY: own, OPENAI_API_KEY },
    ) => ({
      environment: {
        COPILOT_PROVIDER_BASE_URL: type === "anthropic" ? url : `${url}/v1`,
        ...(!own && type !== "anthropic" && OPENAI_API_KEY && { COPILOT_PROVIDER_API_KEY: OPENAI_API_KEY }),
      },
    }),
    addresses: { chat: ["chat"], messages: ["anthropic"] },
    settings: ({ COPILOT_PROVIDER_BASE_URL: address, COPILOT_PROVIDER_TYPE: type }) => [{
      path: "COPILOT_PROVIDER_BASE_URL",
      format: "json",
      text: JSON.stringify({ [type === "anthropic" ? type : "chat"]: address }),
    }],
  },
  cline: {
    title: "Cline",
    program: "cline",
    tested: "3.0.65",
    userAgents: ["ai-sdk", "Cline"],
    needs: "any",
    file: (given) => ({
      paths: [given.CLINE_PROVIDER_SETTINGS_PATH || join(clineFolder(given), "settings", "providers.json")],
      format: "json",
      // Only configured providers: it ignores one without a key or model.
      entries(gateway, text) {
        const set = fields(fields(parse(text)).providers);
        return redirected(
          gateway,
          Object.entries(CLINE_PROVIDERS).filter(([name]) => name in set).map(([name, protocol]) => ({
            path: ["providers", name, "settings", "baseUrl"],
            protocol,
            now: fields(fields(set[name]).settings).baseUrl,
          })),
        );
      },
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
      entries(gateway, text) {
        const { models } = fields(parseYaml(text));
        return redirected(
          gateway,
          (Array.isArray(models) ? models.map(fields) : []).flatMap(({ name, provider, apiBase: now }) =>
            typeof name === "string" && (provider === "openai" || provider === "anthropic")
              ? [{
                path: ["models", name, "apiBase"],
                protocol: provider === "openai" ? "chat" : "messages",
                now,
              }]
              : []
          ),
        );
      },
    }),
    takes: (path) => ({ args: ["--config", path] }),
  },
  openclaw: {
    title: "OpenClaw",
    program: "openclaw",
    tested: "2026.9.6",
    userAgents: ["OpenAI", "undici"],
    needs: "any",
    addresses: {
      chat: ["models", "providers", "openai", "baseUrl"],
      messages: ["models", "providers", "anthropic", "baseUrl"],
    },
    file: (given) => ({
      paths: [given.OPENCLAW_CONFIG_PATH || join(openClawFolder(given), "openclaw.json")],
      format: "json5",
      entries: (gateway) => [
        ...addressEntries(gateway, AGENTS.openclaw!.addresses!),
        { path: ["models", "providers", "anthropic", "api"], value: "anthropic-messages" },
      ],
    }),
    takes: (path) => ({ environment: { OPENCLAW_CONFIG_PATH: path } }),
  },
};

export const ANY_PROGRAM: Pick<AgentEntry, "needs" | "settingsFor"> = {
  needs: "any",
  settingsFor: (gateway) => ({ environment: { ...claudeEnvironment(gateway), ...sdkEnvironment(gateway) } }),
};
