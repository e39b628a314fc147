import { AGENTS } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";

export const CODEX: Agent = {
  name: "codex",
  entry: AGENTS.codex!,
  rulesFile: "AGENTS.md",
  tools: { shell: (cmd) => ({ name: "exec_command", args: { cmd } }) },
  quiet: {},
  async configure({ home, windowTokens }) {
    const folder = `${home}/.codex`;
    await Deno.mkdir(folder, { recursive: true });
    const lines = [
      `model_context_window = ${windowTokens}`,
      "check_for_update_on_startup = false",
      "[analytics]",
      "enabled = false",
    ];
    await Deno.writeTextFile(`${folder}/config.toml`, lines.join("\n"));
    // Only `codex exec` reads the environment's key.
    await Deno.writeTextFile(`${folder}/auth.json`, JSON.stringify({ OPENAI_API_KEY: "key" }));
    return {};
  },
  prompt: (text, { isFirst, image, model = "gpt-5.5" }) => ({
    program: "codex",
    args: [
      ...["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--model", model],
      ...(isFirst ? [] : ["resume", "--last"]),
      ...(image === undefined ? [] : [`--image=${image}`]),
      text,
    ],
  }),
  converse: (texts, { workspace: cwd }) => ({
    program: "codex",
    args: ["app-server"],
    talk: [
      HELLO,
      ask(2, "thread/start", {
        cwd,
        model: "gpt-5.5",
        approvalPolicy: "never",
        sandbox: "danger-full-access",
      }),
      ...texts.map((text, at) => ({
        line: (heard: string) => {
          const threadId = /"thread":\{"id":"([0-9a-f-]+)"/.exec(heard)?.[1];
          return ask(3 + at, "turn/start", { threadId, input: [{ type: "text", text }] }).line;
        },
        until: /"turn\/completed"/,
      })),
    ],
  }),
  async compact({ home, run }) {
    const threadId = await threadIn(`${home}/.codex/sessions`);
    return await run({
      program: "codex",
      args: ["app-server"],
      talk: [
        HELLO,
        ask(2, "thread/resume", { threadId }),
        ask(3, "thread/compact/start", { threadId }, "turn/completed"),
      ],
    });
  },
  lacks: {
    delegate: "has no tool for subagents that waits for them",
    discoveries: "defers only tools of MCP servers",
  },
};

function ask(id: number, method: string, params: unknown, until = `"id":${id}\\b.*"result"`) {
  return { line: JSON.stringify({ id, method, params }), until: new RegExp(until) };
}

const HELLO = ask(1, "initialize", { clientInfo: { name: "test", version: "1" } });

async function threadIn(folder: string): Promise<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) return await threadIn(`${folder}/${name}`);
    const id = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl/.exec(name)?.[1];
    if (id !== undefined) return id;
  }
  throw new Error(`Cannot find a conversation: ${folder} has none`);
}
