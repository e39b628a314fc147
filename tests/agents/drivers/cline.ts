import { acpConversation } from "../acp.ts";
import type { Agent } from "../agent.ts";

/** Cline over chat completions. */
export const CLINE: Agent = {
  name: "cline",
  rulesFile: "AGENTS.md",
  tools: {
    shell: (command) => ({ name: "run_commands", args: { commands: [command] } }),
    delegate: (task) => ({
      name: "spawn_agent",
      args: { systemPrompt: "You do a part of a plan.", task },
    }),
  },
  // A process of its own behind the program would outlive it.
  quiet: { CLINE_SESSION_BACKEND_MODE: "local", CLINE_NO_AUTO_UPDATE: "1" },
  async configure({ home, url }) {
    const folder = `${home}/.cline/data/settings`;
    await Deno.mkdir(folder, { recursive: true });
    const settings = { provider: PROVIDER, apiKey: "key", model: "gpt-5", baseUrl: `${url}/v1` };
    const providers = {
      [PROVIDER]: { settings, updatedAt: "2026-01-01T00:00:00.000Z", tokenSource: "manual" },
    };
    await Deno.writeTextFile(
      `${folder}/providers.json`,
      JSON.stringify({ version: 1, lastUsedProvider: PROVIDER, modes: {}, providers }),
    );
    return {};
  },
  prompt: (text, { isFirst, image, home }) => ({
    program: "cline",
    args: [
      "--auto-approve",
      "true",
      ...(isFirst ? [] : ["--id", sessionIn(home)]),
      image === undefined ? text : `${text} @${image}`,
    ],
  }),
  converse: (texts, { workspace }) => ({
    program: "cline",
    args: ["--acp", "--auto-approve", "true"],
    talk: acpConversation(texts, workspace),
  }),
  lacks: {
    discoveries: "defers no tools",
    compact: "compacts by command in a terminal alone",
  },
};

const PROVIDER = "openai-compatible";

/** The id of the only conversation: the name of its folder. */
function sessionIn(home: string): string {
  const [session] = Deno.readDirSync(`${home}/.cline/data/sessions`);
  if (!session) throw new Error(`Cannot find a conversation: ${home} has none`);
  return session.name;
}
