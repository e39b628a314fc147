import { fromFileUrl, join } from "@std/path";

/** The addresses under which an agent finds its providers behind a server of ours. */
export interface Behind {
  /** The server itself, which Messages go to. */
  readonly url: string;
  /** Whether it passes chat completions and responses on; their address is `url` with `/v1`. */
  readonly hasChat: boolean;
  /** Whether Messages go on to the provider whose protocol it is. */
  readonly isFirstHand: boolean;
}

/** The environment of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A setting in a file of an agent's. */
export interface FileEntry {
  /** The names of the objects that it stands in, and its own. */
  readonly path: readonly string[];
  readonly value: string;
}

/** A file that an agent is configured by. */
export interface AgentFile {
  /** Where it may be: the first that is there, or else the first. */
  readonly paths: readonly string[];
  readonly format: "json" | "toml";
  readonly entries: (behind: Behind) => readonly FileEntry[];
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
  /** What one process of it needs in its environment beside `given`. */
  readonly environment: (behind: Behind, given: Environment) => Readonly<Record<string, string>>;
  /** What stands in front of its arguments. Default: nothing. */
  readonly args?: (behind: Behind) => readonly string[];
  /** Its file. Default: it has none for this, and can only be run. */
  readonly file?: (given: Environment) => AgentFile;
  /** Where its login says that it is no key but a subscription with a provider of its own. Default: nowhere. */
  readonly loginProvider?: (given: Environment) => string | undefined;
}

const PI_EXTENSION = fromFileUrl(new URL("pi_extension.js", import.meta.url));

/** What Claude Code needs behind any address that isn't its provider's own; its agent SDK starts it. */
function claudeEnvironment({ url, isFirstHand }: Behind): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: url,
    // Without it, it sends the definitions of all tools of MCP servers with each call.
    ENABLE_TOOL_SEARCH: "true",
    CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: "1",
    // A number that changes with sub-agents and compaction, which only that provider takes out again.
    ...(!isFirstHand && { CLAUDE_CODE_ATTRIBUTION_HEADER: "0" }),
  };
}

/** What the providers' own SDKs look for. */
function sdkEnvironment({ url, hasChat }: Behind): Record<string, string> {
  return hasChat ? { OPENAI_BASE_URL: `${url}/v1` } : {};
}

/** Providers of an agent that has both, each with its address as that agent writes it. */
function bothProviders(
  { url, hasChat }: Behind,
  entry: (provider: string, url: string) => FileEntry,
  messagesUrl = url,
): FileEntry[] {
  return [...(hasChat ? [entry("openai", `${url}/v1`)] : []), entry("anthropic", messagesUrl)];
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

function home({ HOME, USERPROFILE }: Environment): string {
  return HOME || USERPROFILE || ".";
}

/** The agents that are known by name. */
export const AGENTS: Readonly<Record<string, AgentEntry>> = {
  claude: {
    title: "Claude Code",
    program: "claude",
    tested: "2.1.330",
    userAgents: ["claude-cli"],
    needs: "messages",
    environment: claudeEnvironment,
    // Its settings outrank the environment: what stands there for another gateway would win.
    args: (behind) => ["--settings", JSON.stringify({ env: claudeEnvironment(behind) })],
    file: (given) => ({
      paths: [join(given.CLAUDE_CONFIG_DIR || join(home(given), ".claude"), "settings.json")],
      format: "json",
      entries: (behind) =>
        Object.entries(claudeEnvironment(behind)).map(([name, value]) => ({ path: ["env", name], value })),
    }),
  },
  codex: {
    title: "Codex",
    program: "codex",
    tested: "0.169.0",
    userAgents: ["codex_exec", "codex_cli_rs", "codex-tui"],
    needs: "chat",
    environment: () => ({}),
    args: ({ url }) => ["--config", `openai_base_url="${url}/v1"`],
    file: (given) => ({
      paths: [join(codexFolder(given), "config.toml")],
      format: "toml",
      entries: ({ url }) => [{ path: ["openai_base_url"], value: `${url}/v1` }],
    }),
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
    environment: (behind, { OPENCODE_CONFIG_CONTENT: given }) => ({
      OPENCODE_CONFIG_CONTENT: openCodeContent(behind, given),
    }),
    file: openCodeFile("opencode", "OPENCODE_CONFIG"),
  },
  kilo: {
    title: "Kilo Code",
    program: "kilo",
    tested: "7.7.7",
    userAgents: ["opencode", "kilo"],
    needs: "any",
    environment: (behind, { KILO_CONFIG_CONTENT: given }) => ({
      KILO_CONFIG_CONTENT: openCodeContent(behind, given),
    }),
    file: openCodeFile("kilo", "KILO_CONFIG"),
  },
  pi: {
    title: "pi",
    program: "pi",
    tested: "0.87.1",
    userAgents: ["pi"],
    needs: "any",
    environment: ({ url, hasChat }) => ({ TARE_PI_URL: url, ...(hasChat && { TARE_PI_CHAT: "on" }) }),
    args: () => ["--extension", PI_EXTENSION],
    file: (given) => ({
      paths: [join(given.PI_CODING_AGENT_DIR || join(home(given), ".pi", "agent"), "models.json")],
      format: "json",
      entries: (behind) =>
        bothProviders(behind, (provider, value) => ({ path: ["providers", provider, "baseUrl"], value })),
    }),
  },
  qwen: {
    title: "Qwen Code",
    program: "qwen",
    tested: "0.24.4",
    userAgents: ["QwenCode"],
    needs: "chat",
    environment: sdkEnvironment,
    args: ({ url }) => ["--auth-type", "openai", "--openai-base-url", `${url}/v1`],
  },
  copilot: {
    title: "Copilot CLI",
    program: "copilot",
    tested: "1.0.102",
    userAgents: ["OpenAI", "copilot"],
    needs: "chat",
    environment: (
      { url },
      { COPILOT_PROVIDER_TYPE: type, COPILOT_PROVIDER_API_KEY: own, OPENAI_API_KEY },
    ) => ({
      COPILOT_PROVIDER_BASE_URL: type === "anthropic" ? url : `${url}/v1`,
      ...(!own && type !== "anthropic" && OPENAI_API_KEY && { COPILOT_PROVIDER_API_KEY: OPENAI_API_KEY }),
    }),
  },
};

/** What any program gets that uses the providers' own SDKs, agent SDKs among them. */
export const ANY_PROGRAM: Pick<AgentEntry, "needs" | "environment"> = {
  needs: "any",
  environment: (behind) => ({ ...claudeEnvironment(behind), ...sdkEnvironment(behind) }),
};

function codexFolder(given: Environment): string {
  return given.CODEX_HOME || join(home(given), ".codex");
}
