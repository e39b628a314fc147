import type { Agent } from "../agent.ts";

/** Codex over responses. */
export const CODEX: Agent = {
  name: "codex",
  rulesFile: "AGENTS.md",
  tools: { shell: (cmd) => ({ name: "exec_command", args: { cmd } }) },
  async configure({ home, url, windowTokens }) {
    const folder = `${home}/.codex`;
    await Deno.mkdir(folder, { recursive: true });
    const lines = [
      `openai_base_url = "${url}/v1"`,
      'model = "gpt-5.5"',
      `model_context_window = ${windowTokens}`,
      'approval_policy = "never"',
      'sandbox_mode = "danger-full-access"',
      "check_for_update_on_startup = false",
      "[analytics]",
      "enabled = false",
    ];
    await Deno.writeTextFile(`${folder}/config.toml`, lines.join("\n"));
    return { CODEX_API_KEY: "key" };
  },
  prompt: (text, { isFirst }) => ({
    program: "codex",
    args: ["exec", "--skip-git-repo-check", ...(isFirst ? [] : ["resume", "--last"]), text],
  }),
};
