import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

export const PI: Agent = {
  name: "pi",
  entry: AGENTS.pi!,
  rulesFile: "AGENTS.md",
  tools: { shell: (command) => ({ name: "bash", args: { command } }) },
  quiet: { PI_OFFLINE: "1", PI_TELEMETRY: "0" },
  async configure({ home, windowTokens }) {
    const folder = `${home}/.pi/agent`;
    await Deno.mkdir(folder, { recursive: true });
    const model = { id: "gpt-5", contextWindow: windowTokens, maxTokens: 8_000, input: ["text", "image"] };
    const provider = { api: "openai-completions", apiKey: "key", models: [model] };
    await Deno.writeTextFile(`${folder}/models.json`, JSON.stringify({ providers: { openai: provider } }));
    return {};
  },
  prompt: (text, { isFirst, image, model = "openai/gpt-5" }) => ({
    program: "pi",
    args: [
      "--print",
      "--approve",
      "--model",
      model,
      ...(isFirst ? [] : ["--continue"]),
      ...(image === undefined ? [] : [`@${image}`]),
      text,
    ],
  }),
  converse: (texts) => ({
    program: "pi",
    args: ["--mode", "rpc", "--approve", "--model", "openai/gpt-5"],
    talk: texts.map((message) => ({
      line: JSON.stringify({ type: "prompt", message }),
      until: /"type":"agent_settled"/,
    })),
  }),
  compact: ({ run }) =>
    run({
      program: "pi",
      args: ["--mode", "rpc", "--approve", "--model", "openai/gpt-5", "--continue"],
      talk: [{ line: '{"type":"compact"}', until: /"command":"compact","success":true/ }],
    }),
  lacks: { delegate: "has no subagents", discoveries: "defers no tools" },
};
