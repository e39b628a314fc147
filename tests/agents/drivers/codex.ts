import type { Agent } from "../agent.ts";

/** Codex over responses. */
export const CODEX: Agent = {
  name: "codex",
  rulesFile: "AGENTS.md",
  tools: { shell: (cmd) => ({ name: "exec_command", args: { cmd } }) },
  quiet: {},
  async configure({ home, url, windowTokens }) {
    const folder = `${home}/.codex`;
    await Deno.mkdir(folder, { recursive: true });
    const lines = [
      `openai_base_url = "${url}/v1"`,
      `model_context_window = ${windowTokens}`,
      "check_for_update_on_startup = false",
      "[analytics]",
      "enabled = false",
    ];
    await Deno.writeTextFile(`${folder}/config.toml`, lines.join("\n"));
    return { CODEX_API_KEY: "key" };
  },
  prompt: (text, { isFirst, model = "gpt-5.5" }) => ({
    program: "codex",
    args: [
      ...["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--model", model],
      ...(isFirst ? [] : ["resume", "--last"]),
      text,
    ],
  }),
  async compact({ home, run }) {
    const ask = (id: number, method: string, params: unknown, until = `"id":${id}\\b.*"result"`) => ({
      line: JSON.stringify({ id, method, params }),
      until: new RegExp(until),
    });
    const threadId = await threadIn(`${home}/.codex/sessions`);
    return await run({
      program: "codex",
      args: ["app-server"],
      talk: [
        ask(1, "initialize", { clientInfo: { name: "test", version: "1" } }),
        ask(2, "thread/resume", { threadId }),
        ask(3, "thread/compact/start", { threadId }, "turn/completed"),
      ],
    });
  },
};

/** The id of the only conversation, from the name of its file. */
async function threadIn(folder: string): Promise<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) return await threadIn(`${folder}/${name}`);
    const id = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl/.exec(name)?.[1];
    if (id !== undefined) return id;
  }
  throw new Error(`Cannot find a conversation: ${folder} has none`);
}
