import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";
import type { Command } from "../program.ts";

export const CLAUDE_CODE: Agent = {
  name: "claude code",
  entry: AGENTS.claude!,
  rulesFile: "CLAUDE.md",
  tools: {
    shell: (command) => ({ name: "Bash", args: { command, description: "Follows the plan" } }),
    delegate: (prompt) => ({
      name: "Agent",
      args: {
        description: "A part of the plan",
        prompt,
        subagent_type: "general-purpose",
        run_in_background: false,
      },
    }),
    discoveries: [
      ...["CronCreate", "CronDelete", "CronList", "EnterWorktree", "ExitWorktree", "Monitor"],
      ...["NotebookEdit", "SendMessage", "TaskStop", "WebFetch", "WebSearch"],
    ].map((name) => ({ name: "ToolSearch", args: { query: `select:${name}`, max_results: 1 } })),
  },
  quiet: { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
  // Claude Code knows its models' windows, and learns smaller ones from the provider's error.
  configure: () => Promise.resolve({ ANTHROPIC_API_KEY: "key" }),
  prompt: (text, { isFirst, image }) =>
    image !== undefined ? talk([[{ type: "text", text }, block(image)]]) : ({
      program: "claude",
      args: ["--print", "--allowedTools", "Bash", ...(isFirst ? [] : ["--continue"]), "--", text],
    }),
  converse: talk,
  compact: ({ run }) => run({ program: "claude", args: ["--print", "--continue", "/compact"] }),
  lacks: {},
};

function talk(contents: readonly unknown[]): Command {
  return {
    program: "claude",
    args: [
      ...["--print", "--verbose", "--allowedTools", "Bash"],
      ...["--input-format", "stream-json", "--output-format", "stream-json"],
    ],
    talk: contents.map((content) => ({
      line: JSON.stringify({ type: "user", message: { role: "user", content } }),
      until: /"type":"result"/,
    })),
  };
}

function block(path: string) {
  const data = Deno.readFileSync(path).toBase64();
  return { type: "image", source: { type: "base64", media_type: "image/png", data } };
}
