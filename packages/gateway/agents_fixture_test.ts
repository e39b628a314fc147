/**
 * Requests in the exact form of unmodified agents. Holds no tests.
 * @module
 */
import { call, post } from "./fixture_test.ts";
import type { ScriptedItems } from "./responses_fixture_test.ts";

export type Json = Readonly<Record<string, unknown>>;

/** Returns a tool result of about 4,000 tokens that contains `name`. */
export function longResult(name: string): string {
  return `${name}: ${Array.from({ length: 5_000 }, (_, at) => `${at % 97}`).join(" ")}`;
}

export const SUMMARIZE: string =
  "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Tool calls will be rejected and will " +
  "waste your only turn.\n\nYour task is to create a detailed summary of the conversation so far, paying close " +
  "attention to the user's explicit requests and your previous actions. This summary should be thorough in capturing " +
  "technical details, code patterns, and architectural decisions that would be essential for continuing the work.";

const THREAD = "01a1ff65-f07e-7780-b146-79c88547cbf8";

export function messageItem(role: string, text: string, id: string): Json {
  const type = role === "assistant" ? "output_text" : "input_text";
  return { type: "message", id, role, content: [{ type, text }] };
}

/** Returns an item of a reply as Codex sends it back: without some fields, with others in another order. */
export function spelledByCodex(item: Json): Json {
  const { type, id, summary, encrypted_content, name, arguments: args, call_id, content, role } = item;
  if (type === "reasoning") return { type, id, summary, encrypted_content };
  if (type === "function_call") return { type, status: "completed", id, name, arguments: args, call_id };
  return { type, id, role, content };
}

export const EXEC_COMMAND: Json = {
  type: "function",
  name: "exec_command",
  description: "Runs a command in a PTY, returning output or a session ID for ongoing interaction.",
  strict: false,
  parameters: {
    type: "object",
    properties: { cmd: { type: "string", description: "Shell command to execute." } },
    required: ["cmd"],
    additionalProperties: false,
  },
};

/** Returns a request of Codex for a turn, or for `kind`. */
export function codexRequest(
  input: readonly Json[],
  { kind = "turn", tools = [EXEC_COMMAND] }: { readonly kind?: string; readonly tools?: readonly Json[] } =
    {},
): Request {
  const metadata = JSON.stringify({
    session_id: THREAD,
    thread_id: THREAD,
    request_kind: kind,
    sandbox: "none",
  });
  const body = {
    model: "gpt-5",
    input,
    tools,
    tool_choice: "auto",
    parallel_tool_calls: tools.length > 0,
    reasoning: { summary: "auto" },
    store: false,
    stream: true,
    include: ["reasoning.encrypted_content"],
    prompt_cache_key: THREAD,
    client_metadata: { thread_id: THREAD, "x-codex-turn-metadata": metadata },
  };
  const headers = { originator: "codex_exec", "session-id": THREAD, "x-codex-turn-metadata": metadata };
  return post(body, headers, "/responses");
}

export function codexOpening(task: string, window = 0): Json[] {
  return [
    messageItem("developer", "You are a coding agent running in the Codex CLI.", "msg_base"),
    messageItem(
      "developer",
      "<permissions instructions>Never ask.</permissions instructions>",
      `msg_dev${window}`,
    ),
    messageItem(
      "user",
      "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nRULE-7: never touch generated files.\n</INSTRUCTIONS>",
      `msg_rules${window}`,
    ),
    messageItem("user", task, "msg_task"),
  ];
}

export function codexStep(name: string, output: string, cmd?: string): Json[] {
  return [
    { type: "reasoning", id: `rs_${name}`, summary: [], encrypted_content: `gAAAA${name}` },
    spelledByCodex(execCommand(name, cmd)),
    { type: "function_call_output", id: `fco_${name}`, call_id: `call_${name}`, output },
  ];
}

export function execCommand(name: string, cmd = `cat ${name}`): ScriptedItems[number] {
  return {
    id: `fc_${name}`,
    type: "function_call",
    status: "completed",
    arguments: JSON.stringify({ cmd }),
    call_id: `call_${name}`,
    name: "exec_command",
  };
}

export const BASH: Json = {
  type: "function",
  function: {
    name: "bash",
    description: "Executes a given bash command in a persistent shell session. ".repeat(30),
    parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  },
};

/** Another tool, which the model doesn't call at first. */
export const PATCH: Json = {
  type: "function",
  function: {
    name: "patch",
    description: "Applies a patch to files of the workspace, line by line. ".repeat(30),
    parameters: { type: "object", properties: { patch: { type: "string" } }, required: ["patch"] },
  },
};

export function chatStep(name: string, content: string): Json[] {
  return [
    {
      role: "assistant",
      content: "",
      tool_calls: [call("bash", { command: `cat ${name}` }, `call_${name}`)],
    },
    { role: "tool", tool_call_id: `call_${name}`, content },
  ];
}
