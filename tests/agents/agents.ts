import type { Agent } from "./agent.ts";
import { CLAUDE_AGENT_SDK } from "./drivers/claude_agent_sdk.ts";
import { CLAUDE_CODE } from "./drivers/claude_code.ts";
import { CLINE } from "./drivers/cline.ts";
import { CODEX } from "./drivers/codex.ts";
import { continueCli } from "./drivers/continue.ts";
import { copilot } from "./drivers/copilot.ts";
import { KILO } from "./drivers/kilo.ts";
import { openaiAgents } from "./drivers/openai_agents.ts";
import { OPENCLAW } from "./drivers/openclaw.ts";
import { OPENCODE } from "./drivers/opencode.ts";
import { PI } from "./drivers/pi.ts";
import { QWEN_CODE } from "./drivers/qwen_code.ts";

export const AGENTS: readonly Agent[] = [
  PI,
  OPENCODE,
  CODEX,
  CLAUDE_CODE,
  QWEN_CODE,
  copilot("chat"),
  copilot("responses"),
  copilot("messages"),
  continueCli("responses"),
  continueCli("messages"),
  CLINE,
  KILO,
  OPENCLAW,
  openaiAgents("chat"),
  openaiAgents("responses"),
  CLAUDE_AGENT_SDK,
];
