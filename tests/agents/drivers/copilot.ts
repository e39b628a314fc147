import { acpConversation } from "../acp.ts";
import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

const PROTOCOLS = {
  chat: { COPILOT_PROVIDER_TYPE: "openai", COPILOT_PROVIDER_WIRE_API: "completions", COPILOT_MODEL: "gpt-5" },
  responses: {
    COPILOT_PROVIDER_TYPE: "openai",
    COPILOT_PROVIDER_WIRE_API: "responses",
    COPILOT_MODEL: "gpt-5",
  },
  messages: { COPILOT_PROVIDER_TYPE: "anthropic", COPILOT_MODEL: "claude-sonnet-4.5" },
};

export function copilot(protocol: keyof typeof PROTOCOLS): Agent {
  return {
    name: `copilot ${protocol}`,
    entry: AGENTS.copilot!,
    rulesFile: "AGENTS.md",
    tools: {
      shell: (command) => ({ name: "bash", args: { command, description: "Follows the plan" } }),
      delegate: (prompt) => ({
        name: "task",
        args: {
          name: "part",
          description: "A part of the plan",
          prompt,
          agent_type: "general-purpose",
          mode: "sync",
        },
      }),
    },
    quiet: { COPILOT_OFFLINE: "true", COPILOT_AUTO_UPDATE: "false" },
    configure: ({ windowTokens }) =>
      Promise.resolve({
        COPILOT_PROVIDER_API_KEY: "key",
        COPILOT_PROVIDER_MAX_PROMPT_TOKENS: `${windowTokens}`,
        ...PROTOCOLS[protocol],
      }),
    prompt: (text, { isFirst, image, model }) => ({
      program: "copilot",
      args: [
        ...FLAGS,
        ...(model ? ["--model", model] : []),
        ...(isFirst ? [] : ["--continue"]),
        ...(image === undefined ? [] : ["--attachment", image]),
        "--prompt",
        text,
      ],
    }),
    converse: (texts, { workspace }) => ({
      program: "copilot",
      args: [...FLAGS, "--acp"],
      talk: acpConversation(texts, workspace),
    }),
    compact: ({ run }) => run({ program: "copilot", args: [...FLAGS, "--continue", "--prompt", "/compact"] }),
    countsItself: true,
    lacks: { discoveries: "defers no tools" },
  };
}

const FLAGS = ["--allow-all-tools", "--allow-all-paths"];
