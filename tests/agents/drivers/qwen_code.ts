import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

export const QWEN_CODE: Agent = {
  name: "qwen code",
  entry: AGENTS.qwen!,
  rulesFile: "AGENTS.md",
  tools: {
    shell: (command) => ({ name: "run_shell_command", args: { command, is_background: false } }),
    delegate: (prompt) => ({
      name: "agent",
      args: {
        description: "A part of the plan",
        prompt,
        subagent_type: "general-purpose",
        run_in_background: false,
      },
    }),
  },
  quiet: { QWEN_CODE_SUPPRESS_YOLO_WARNING: "1" },
  async configure({ home, windowTokens }) {
    const settings = {
      privacy: { usageStatisticsEnabled: false },
      general: { disableAutoUpdate: true, disableUpdateNag: true },
      model: { generationConfig: { contextWindowSize: windowTokens, modalities: { image: true } } },
      // As in a terminal. Otherwise output that arrives after a command's end is lost.
      tools: { shell: { enableInteractiveShell: true } },
    };
    await Deno.mkdir(`${home}/.qwen`);
    await Deno.writeTextFile(`${home}/.qwen/settings.json`, JSON.stringify(settings));
    return { OPENAI_API_KEY: "key" };
  },
  prompt: (text, { isFirst, image, model = "gpt-5" }) => ({
    program: "qwen",
    args: [
      ...FLAGS,
      "--model",
      model,
      ...(isFirst ? [] : ["--continue"]),
      image === undefined ? text : `${text} @${image}`,
    ],
  }),
  converse: (texts) => ({
    program: "qwen",
    args: [...FLAGS, "--model", "gpt-5", "--input-format", "stream-json", "--output-format", "stream-json"],
    talk: texts.map((content) => ({
      line: JSON.stringify({ type: "user", message: { role: "user", content } }),
      until: /"type":"result"/,
    })),
  }),
  compact: ({ run }) =>
    run({ program: "qwen", args: [...FLAGS, "--model", "gpt-5", "--continue", "/compress"] }),
  // For a summary. It compacts from 13,000 tokens less.
  keepsFreeTokens: 20_000,
  lacks: { discoveries: "defers no tools" },
};

const FLAGS = ["--yolo"];
