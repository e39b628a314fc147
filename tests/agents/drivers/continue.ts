import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

const MODELS = {
  responses: { provider: "openai", model: "gpt-5" },
  messages: { provider: "anthropic", model: "claude-sonnet-4-5" },
};

export function continueCli(protocol: keyof typeof MODELS): Agent {
  const model = MODELS[protocol];
  return {
    name: `continue ${protocol}`,
    entry: AGENTS.continue!,
    rulesFile: "AGENTS.md",
    tools: { shell: (command) => ({ name: "Bash", args: { command } }) },
    quiet: { CONTINUE_TELEMETRY_ENABLED: "0", CONTINUE_CLI_ENABLE_TELEMETRY: "0" },
    async configure({ home, windowTokens }) {
      const configuration = {
        name: "own",
        version: "1.0.0",
        schema: "v1",
        models: [{
          name: model.model,
          ...model,
          apiKey: "key",
          roles: ["chat"],
          capabilities: ["tool_use", "image_input"],
          defaultCompletionOptions: { contextLength: windowTokens, maxTokens: 8_000 },
        }],
      };
      await Deno.mkdir(`${home}/.continue`);
      await Deno.writeTextFile(`${home}/.continue/config.yaml`, JSON.stringify(configuration));
      return {};
    },
    prompt: (text, { isFirst }) => ({
      program: "cn",
      args: [
        ...["--auto", "--print"],
        ...(isFirst ? [] : ["--resume"]),
        text,
      ],
    }),
    countsItself: true,
    lacks: {
      discoveries: "defers no tools",
      converse: "accepts several prompts of one process only in a terminal",
      compact: "compacts by command only in a terminal",
      interrupt: "keeps nothing of a turn that was broken off",
      images: "accepts images only in a terminal",
      delegate: "has no subagents but for a beta",
      ...(protocol === "messages" && { retries: "doesn't retry on a rate limit" }),
    },
  };
}
