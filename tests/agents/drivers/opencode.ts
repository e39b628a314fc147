import type { Agent } from "../agent.ts";

/** opencode over chat completions. */
export const OPENCODE: Agent = {
  name: "opencode",
  rulesFile: "AGENTS.md",
  tools: {
    shell: (command) => ({ name: "bash", args: { command, description: "Does what the plan says" } }),
    delegate: (prompt) => ({
      name: "task",
      args: { description: "A part of the plan", prompt, subagent_type: "general" },
    }),
  },
  quiet: {
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
  },
  configure({ url, windowTokens }) {
    const model = { limit: { context: windowTokens, output: 8_000 }, tool_call: true };
    const provider = {
      npm: "@ai-sdk/openai-compatible",
      options: { baseURL: `${url}/v1`, apiKey: "key" },
      models: { "gpt-5": model },
    };
    return Promise.resolve({
      OPENCODE_CONFIG_CONTENT: JSON.stringify({
        provider: { tare: provider },
        share: "disabled",
        permission: "allow",
        model: "tare/gpt-5",
      }),
    });
  },
  prompt: (text, { isFirst, model = "tare/gpt-5" }) => ({
    program: "opencode",
    args: ["run", "--auto", "--model", model, ...(isFirst ? [] : ["--continue"]), text],
  }),
  converse: (texts, { workspace: cwd }) => ({
    program: "opencode",
    args: ["acp"],
    talk: [
      HELLO,
      ask(2, "session/new", { cwd, mcpServers: [] }),
      ...texts.map((text, at) => {
        const line = (heard: string) => {
          const sessionId = /"sessionId":"(\w+)"/.exec(heard)?.[1];
          return ask(3 + at, "session/prompt", { sessionId, prompt: [{ type: "text", text }] }).line;
        };
        return { line, until: new RegExp(`"id":${3 + at}\\b.*"result"`) };
      }),
    ],
  }),
  async compact({ workspace: cwd, run }) {
    const { output } = await run({ program: "opencode", args: ["session", "list", "--format", "json"] });
    const sessionId = /"id": *"(\w+)"/.exec(output)?.[1];
    return await run({
      program: "opencode",
      args: ["acp"],
      talk: [
        HELLO,
        ask(2, "session/load", { sessionId, cwd, mcpServers: [] }),
        ask(3, "session/prompt", { sessionId, prompt: [{ type: "text", text: "/compact" }] }),
      ],
    });
  },
};

/** A request of the agent client protocol, and what tells that it is answered. */
function ask(id: number, method: string, params: unknown) {
  return {
    line: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
    until: new RegExp(`"id":${id}\\b.*"result"`),
  };
}

const HELLO = ask(1, "initialize", { protocolVersion: 1 });
