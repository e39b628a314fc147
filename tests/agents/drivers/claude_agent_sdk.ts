import { fromFileUrl } from "@std/path";
import { ANY_PROGRAM } from "../../../packages/cli/agents/agents.ts";
import type { Agent } from "../agent.ts";
import { CLAUDE_CODE } from "./claude_code.ts";

const PROGRAM = fromFileUrl(new URL("../programs/claude_agent_sdk.mjs", import.meta.url));

/** Agent of the Claude Agent SDK: Claude Code's tools and environment, without its command line. */
export const CLAUDE_AGENT_SDK: Agent = {
  ...CLAUDE_CODE,
  name: "claude agent sdk",
  entry: ANY_PROGRAM,
  prompt: (text, { isFirst, image }) => ({
    program: "node",
    args: [PROGRAM, isFirst ? "new" : "continue", image === undefined ? text : `${text} @${image}`],
  }),
  converse: (texts) => ({ program: "node", args: [PROGRAM, "new", ...texts] }),
  compact: ({ run }) => run({ program: "node", args: [PROGRAM, "continue", "/compact"] }),
};
