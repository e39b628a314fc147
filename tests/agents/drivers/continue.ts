import type { Agent } from "../agent.ts";

/** Which model of which provider makes Continue speak a protocol. */
const MODELS = {
  responses: { provider: "openai", model: "gpt-5", path: "/v1" },
  messages: { provider: "anthropic", model: "claude-sonnet-4-5", path: "/v1" },
};

/** Continue's command line. */
export function continueCli(protocol: keyof typeof MODELS): Agent {
  const { path, ...model } = MODELS[protocol];
  return {
    name: `continue ${protocol}`,
    rulesFile: "AGENTS.md",
    tools: { shell: (command) => ({ name: "Bash", args: { command } }) },
    quiet: { CONTINUE_TELEMETRY_ENABLED: "0", CONTINUE_CLI_ENABLE_TELEMETRY: "0" },
    async configure({ home, url, windowTokens }) {
      const configuration = {
        name: "own",
        version: "1.0.0",
        schema: "v1",
        models: [{
          name: model.model,
          ...model,
          apiBase: `${url}${path}`,
          apiKey: "key",
          roles: ["chat"],
          capabilities: ["tool_use", "image_input"],
          defaultCompletionOptions: { contextLength: windowTokens, maxTokens: 8_000 },
        }],
      };
      // YAML holds JSON.
      await Deno.mkdir(`${home}/.continue`);
      await Deno.writeTextFile(`${home}/.continue/config.yaml`, JSON.stringify(configuration));
      return {};
    },
    prompt: (text, { isFirst, home }) => ({
      program: "cn",
      args: [
        ...["--config", `${home}/.continue/config.yaml`, "--auto", "--print"],
        ...(isFirst ? [] : ["--resume"]),
        text,
      ],
    }),
    lacks: {
      discoveries: "defers no tools",
      converse: "takes prompts of one process from a terminal alone",
      compact: "compacts by command in a terminal alone",
      interrupt: "keeps nothing of a turn that was broken off",
      images: "takes pictures from a terminal alone",
      delegate: "has no sub-agents but for a beta",
    },
  };
}
