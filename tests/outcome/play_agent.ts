import type { Agent } from "../agents/agent.ts";
import { runProgram } from "../agents/program.ts";
import { deleteBefore } from "./folder.ts";
import type { Made } from "./task.ts";

/** Plays the turns of a task with an agent program, each in its own process. */
export async function agentAnswers(
  agent: Agent,
  made: Made,
  { workspace, home, url, windowTokens, online }: {
    readonly workspace: string;
    readonly home: string;
    readonly url: string;
    readonly windowTokens: number;
    readonly online: boolean;
  },
): Promise<readonly string[]> {
  const nowhere = "http://127.0.0.1:9";
  const given = {
    HOME: home,
    ...(!online && {
      ...{ http_proxy: nowhere, HTTP_PROXY: nowhere, https_proxy: nowhere, HTTPS_PROXY: nowhere },
      NO_PROXY: "127.0.0.1,localhost",
    }),
    ...agent.quiet,
    ...await agent.configure({ home, workspace, url, windowTokens }),
  };
  const settingsFor = agent.entry.settingsFor?.({ url, chat: url, messages: url }, given);
  const answers: string[] = [];
  for (const [at, question] of made.question.entries()) {
    await deleteBefore(made, { at, workspace });
    const { args, ...command } = agent.prompt(question, { isFirst: at === 0, home });
    const { output } = await runProgram({ ...command, args: [...settingsFor?.args ?? [], ...args] }, {
      cwd: workspace,
      env: { ...given, ...settingsFor?.environment },
    });
    answers.push(output);
  }
  return answers;
}
