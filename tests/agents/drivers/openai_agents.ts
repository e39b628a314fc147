import { fromFileUrl } from "@std/path";
import { ANY_PROGRAM } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

const PROGRAM = fromFileUrl(new URL("../programs/openai_agents.mjs", import.meta.url));

export function openaiAgents(protocol: "chat" | "responses"): Agent {
  return {
    name: `openai agents ${protocol}`,
    entry: ANY_PROGRAM,
    rulesFile: "AGENTS.md",
    tools: {
      shell: (command) => ({ name: "shell", args: { command } }),
      delegate: (input) => ({ name: "delegate", args: { input } }),
    },
    quiet: { OPENAI_AGENTS_DISABLE_TRACING: "1" },
    configure: () => Promise.resolve({ OPENAI_API_KEY: "key" }),
    prompt: (text, { home, image, conversation = "conversation" }) => ({
      program: "node",
      args: [
        PROGRAM,
        protocol,
        `${home}/${conversation}.json`,
        image === undefined ? text : `${text} @${image}`,
      ],
    }),
    converse: (texts, { home }) => ({
      program: "node",
      args: [PROGRAM, protocol, `${home}/conversation.json`, ...texts],
    }),
    lacks: {
      discoveries: "defers no tools",
      compact: "compacts by no command",
      limit: "doesn't compact by itself",
      interrupt: "keeps nothing of a turn that was broken off",
      retries: "gives up when a stream breaks off",
    },
  };
}
