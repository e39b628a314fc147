import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

const TERMINAL = "continues a conversation only in a terminal";

export const CLINE: Agent = {
  name: "cline",
  entry: AGENTS.cline!,
  rulesFile: "AGENTS.md",
  tools: {
    shell: (command) => ({ name: "run_commands", args: { commands: [command] } }),
    delegate: (task) => ({
      name: "spawn_agent",
      args: { systemPrompt: "You do a part of a plan.", task },
    }),
  },
  // A background process would outlive the program.
  quiet: { CLINE_SESSION_BACKEND_MODE: "local", CLINE_NO_AUTO_UPDATE: "1" },
  async configure({ home, windowTokens }) {
    const folder = `${home}/.cline/data/settings`;
    await Deno.mkdir(folder, { recursive: true });
    const settings = { provider: PROVIDER, apiKey: "key", model: "gpt-5", contextWindow: windowTokens };
    const providers = {
      [PROVIDER]: { settings, updatedAt: "2026-01-01T00:00:00.000Z", tokenSource: "manual" },
    };
    await Deno.writeTextFile(
      `${folder}/providers.json`,
      JSON.stringify({ version: 1, lastUsedProvider: PROVIDER, modes: {}, providers }),
    );
    return {};
  },
  prompt: (text, { image }) => ({
    program: "cline",
    args: ["--auto-approve", "true", image === undefined ? text : `${text} @${image}`],
  }),
  countsItself: true,
  lacks: {
    discoveries: "defers no tools",
    resume: TERMINAL,
    interrupt: TERMINAL,
    converse: TERMINAL,
    compact: TERMINAL,
  },
};

const PROVIDER = "openai-compatible";
