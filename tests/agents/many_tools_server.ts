import type { ToolDefinition } from "@tare/messages";
import type { Agent, AgentPlace } from "./agent.ts";

/** Program of an MCP server whose tools, in the file that it is given, all answer with their names. */
const SERVER = `
const { readFileSync } = require("node:fs");
const tools = JSON.parse(readFileSync(process.argv[2], "utf8")).map(({ function: { name, description, parameters } }) => ({
  name,
  description,
  inputSchema: parameters ?? { type: "object" },
}));
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "hub", version: "1" },
  }),
  "tools/list": () => ({ tools }),
  "tools/call": ({ name }) => ({ content: [{ type: "text", text: "Result of " + name + "." }] }),
};
let rest = "";
process.stdin.on("data", (data) => {
  const lines = (rest + data).split("\\n");
  rest = lines.pop();
  for (const { id, method, params } of lines.filter(Boolean).map((line) => JSON.parse(line))) {
    if (id === undefined) continue;
    const result = answers[method]?.(params);
    const said = result ? { result } : { error: { code: -32601, message: "unknown" } };
    console.log(JSON.stringify({ jsonrpc: "2.0", id, ...said }));
  }
});
`;

type Change = (place: AgentPlace, command: readonly [string, string, string]) => Promise<void>;

const configured = (path: string): Change => ({ workspace }, command) =>
  writeJson(`${workspace}/${path}`, { mcp: { hub: { type: "local", command, enabled: true } } });

/** Adds the server to an agent's settings, by agent. */
const CHANGES: Readonly<Record<string, Change>> = {
  "claude code": ({ workspace }, [command, ...args]) =>
    writeJson(`${workspace}/.mcp.json`, { mcpServers: { hub: { command, args } } }),
  codex: async ({ home }, [command, ...args]) => {
    const lines = `\n[mcp_servers.hub]\ncommand = "${command}"\nargs = ${JSON.stringify(args)}\n`;
    await Deno.writeTextFile(`${home}/.codex/config.toml`, lines, { append: true });
  },
  opencode: configured("opencode.json"),
  kilo: configured("kilo.json"),
  "copilot chat": async ({ home }, [command, ...args]) => {
    await Deno.mkdir(`${home}/.copilot`);
    const hub = { type: "local", command, args, tools: ["*"] };
    await writeJson(`${home}/.copilot/mcp-config.json`, { mcpServers: { hub } });
  },
  cline: ({ home }, [command, ...args]) =>
    writeJson(`${home}/.cline/data/settings/cline_mcp_settings.json`, {
      mcpServers: { hub: { command, args } },
    }),
  "continue responses": async ({ home }, [command, ...args]) => {
    const path = `${home}/.continue/config.yaml`;
    const settings = JSON.parse(await Deno.readTextFile(path));
    await writeJson(path, { ...settings, mcpServers: [{ name: "hub", command, args }] });
  },
  "qwen code": async ({ home }, [command, ...args]) => {
    const path = `${home}/.qwen/settings.json`;
    const settings = JSON.parse(await Deno.readTextFile(path));
    await writeJson(path, { ...settings, mcpServers: { hub: { command, args, trust: true } } });
  },
};

/** Returns an agent with an MCP server of these tools; `undefined` if it can't be configured here. */
export function withServer(agent: Agent, tools: readonly ToolDefinition[]): Agent | undefined {
  const change = CHANGES[agent.name];
  if (!change) return undefined;
  return {
    ...agent,
    async configure(place) {
      const environment = await agent.configure(place);
      await change(place, await serverIn(place.home, tools));
      return environment;
    },
    prompt(text, options) {
      const { program, args } = agent.prompt(text, options);
      return agent.name === "claude code"
        ? { program, args: ["--mcp-config", ".mcp.json", ...args.with(2, "Bash,mcp__hub")] }
        : { program, args };
    },
  };
}

/** Writes the server's files into a folder. Returns its command. */
export async function serverIn(
  folder: string,
  tools: readonly ToolDefinition[],
): Promise<readonly [string, string, string]> {
  const [program, list] = [`${folder}/hub.cjs`, `${folder}/hub.json`];
  await Deno.writeTextFile(program, SERVER);
  await writeJson(list, tools);
  return ["node", program, list];
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, JSON.stringify(value));
}
