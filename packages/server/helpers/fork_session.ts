import { describeCall, firstWords, type Message, type ToolCall } from "@tare/messages";
import type { StoreRecord } from "@tare/conversation";
import type { ForkedPrompt } from "../sessions/session_prompt.ts";
import type { SessionSettings, StoredSettings } from "../sessions/session_settings.ts";

/** What a fork is made of. */
export interface Fork {
  readonly id: string;
  /** The session that is forked. */
  readonly parent: string;
  readonly createdAtMs: number;
  readonly settings: SessionSettings;
  /** What sets the fork apart from its parent. */
  readonly helper: NonNullable<StoredSettings["helper"]>;
  /** What the fork is for. */
  readonly task: string;
  /** What was said up to the reply that calls for the fork, the system message first. */
  readonly messages: readonly Message[];
  readonly prompt: ForkedPrompt;
}

/**
 * The records that make a session which goes on from another one's reply. It begins with the same messages, edits and
 * archive, so that its requests begin with the bytes of its parent's newest one.
 */
export function forkRecords(
  { id, parent, createdAtMs, settings, helper, task, messages, prompt }: Fork,
): readonly StoreRecord[] {
  const stored: StoredSettings = { ...settings, budget: {}, helper };
  const said = messages.slice(settings.instructions === "" ? 0 : 1);
  const state = (name: string, value: unknown): StoreRecord => ({
    type: "state",
    sessionId: id,
    name,
    value,
  });
  return [
    { type: "session", kind: "agent", id, createdAtMs, settings: stored, parent },
    state("title", firstWords(task)),
    ...Object.entries(prompt).map(([name, value]) => state(name, value)),
    {
      type: "events",
      sessionId: id,
      after: 0,
      events: said.map((message) => ({ type: "message_added", message })),
    },
  ];
}

/** What was said up to the newest reply, and an answer to each of its calls, for none may stay open. */
export function messagesOfFork(messages: readonly Message[]): readonly Message[] {
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const reply = messages[at];
  const calls = reply?.role === "assistant" ? reply.tool_calls ?? [] : [];
  return [...messages.slice(0, at + 1), ...calls.map(answerInFork)];
}

/** The same for every fork of a reply, so that forks share their beginning with one another too. */
function answerInFork(call: ToolCall): Message {
  const { name } = describeCall(call);
  const content = name === "delegate"
    ? "A helper works on this task, with this conversation up to here."
    : `The result of ${name} isn't known here: the call is made once, elsewhere. Make another one if you need it.`;
  return { role: "tool", tool_call_id: call.id, content };
}

/** What a helper is told. */
export function taskFor(task: string, mayUse: readonly string[] | undefined): string {
  return [
    "You are a helper now: a copy of the agent above, made for one task, while the agent waits for what you find.",
    ...(mayUse ? [`You may use these tools alone: ${mayUse.join(", ")}.`] : []),
    `Nobody can be asked, and you have no helpers. Do this and no more:\n\n${task}\n\n` +
    "The agent gets your last message and nothing else: say all that it needs there, and no more.",
  ].join(" ");
}
