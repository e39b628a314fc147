import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

/** OpenClaw over chat completions, as a command without its daemon. */
export const OPENCLAW: Agent = {
  name: "openclaw",
  entry: AGENTS.openclaw!,
  rulesFile: "AGENTS.md",
  tools: { shell: (command) => ({ name: "exec", args: { command } }) },
  quiet: { OPENCLAW_SKIP_CHANNELS: "1", OPENCLAW_DISABLE_BONJOUR: "1" },
  async configure({ home, workspace, windowTokens }) {
    const model = {
      id: "gpt-5",
      name: "gpt-5",
      contextWindow: windowTokens,
      maxTokens: 8_000,
      input: ["text", "image"],
      reasoning: false,
      cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    };
    const provider = { apiKey: "key", api: "openai-completions", models: [model] };
    const settings = {
      models: { mode: "merge", providers: { openai: provider } },
      agents: { defaults: { model: { primary: "openai/gpt-5" }, workspace, skipBootstrap: true } },
    };
    await Deno.mkdir(`${home}/.openclaw`);
    await Deno.writeTextFile(`${home}/.openclaw/openclaw.json`, JSON.stringify(settings));
    return {};
  },
  prompt: (text, { conversation = "conversation" }) => ({
    program: "openclaw",
    args: [
      "agent",
      "--local",
      "--agent",
      "main",
      "--session-id",
      conversation,
      "--timeout",
      "900",
      "--message",
      text,
    ],
  }),
  countsItself: true,
  // For a reply, and to compact.
  keepsFreeTokens: 20_000,
  lacks: {
    discoveries: "defers no tools",
    converse: "runs one prompt a process without its daemon",
    compact: "compacts by command only in its daemon",
    images: "accepts images only from its daemon's channels",
    retries: "gives up when a stream breaks off",
    delegate: "doesn't wait for its subagents without its daemon",
  },
};
