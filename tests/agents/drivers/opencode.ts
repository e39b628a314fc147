import { acpConversation, acpPrompt } from "../acp.ts";
import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

/** Tokens that opencode reserves for a reply; its requests don't contain them. */
const REPLY_TOKENS = 32_000;

/** Returns the driver of opencode or a fork, with its program name and environment prefix. */
export function opencode(program: string, environment: string): Agent {
  const sessions = { program, args: ["session", "list", "--format", "json"] };
  return {
    name: program,
    entry: AGENTS[program]!,
    rulesFile: "AGENTS.md",
    tools: {
      shell: (command) => ({ name: "bash", args: { command, description: "Follows the plan" } }),
      delegate: (prompt) => ({
        name: "task",
        args: { description: "A part of the plan", prompt, subagent_type: "general" },
      }),
    },
    quiet: {
      [`${environment}_DISABLE_AUTOUPDATE`]: "1",
      [`${environment}_DISABLE_MODELS_FETCH`]: "1",
      [`${environment}_DISABLE_LSP_DOWNLOAD`]: "1",
    },
    configure({ windowTokens }) {
      const model = {
        // For a model that it knows by name, opencode also has a longest prompt.
        limit: { context: windowTokens, input: 0, output: REPLY_TOKENS },
        tool_call: true,
        modalities: { input: ["text", "image"], output: ["text"] },
      };
      const provider = {
        npm: "@ai-sdk/openai-compatible",
        options: { apiKey: "key" },
        models: { "gpt-5": model },
      };
      return Promise.resolve({
        [`${environment}_CONFIG_CONTENT`]: JSON.stringify({
          provider: { openai: provider },
          share: "disabled",
          permission: "allow",
          model: "openai/gpt-5",
        }),
      });
    },
    prompt: (text, { isFirst, image, model = "openai/gpt-5" }) => ({
      program,
      args: [
        "run",
        "--auto",
        "--model",
        model,
        ...(isFirst ? [] : ["--continue"]),
        text,
        ...(image === undefined ? [] : [`--file=${image}`]),
      ],
    }),
    converse: (texts, { workspace }) => ({
      program,
      args: ["acp"],
      talk: acpConversation(texts, workspace),
    }),
    prepare: sessions,
    async compact({ workspace: cwd, run }) {
      const { output } = await run(sessions);
      const sessionId = /"id": *"(\w+)"/.exec(output)?.[1];
      return await run({
        program,
        args: ["acp"],
        talk: acpPrompt("/compact", { sessionId, cwd }),
      });
    },
    keepsFreeTokens: REPLY_TOKENS - 8_000,
    lacks: { discoveries: "defers no tools" },
  };
}

export const OPENCODE: Agent = opencode("opencode", "OPENCODE");
