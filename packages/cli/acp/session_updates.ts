import type { SessionUpdate, ToolCallStatus } from "@agentclientprotocol/sdk";
import type { Usage } from "@tare/messages";
import { PLAN_TOOL_NAME } from "@tare/messages/internal";
import type { NumberedEvent } from "@tare/server/internal";
import { type EntryOf, TranscriptReducer } from "@tare/server/internal/transcript";
import type { AgentInfo } from "../agent_client.ts";
import { contentBlocks } from "./prompt_content.ts";
import { printableText } from "../terminal/printable_text.ts";
import { describeToolCall, toolText } from "./tool_calls.ts";

/** Converts a session's events to an editor's updates. The same events give the same updates and ids. */
export class SessionUpdates {
  readonly #agent: AgentInfo;
  readonly #transcript = new TranscriptReducer();
  #usd: number | undefined;
  /** Unfinished calls in the editor, by key: its id, and whether it shows a diff. */
  readonly #open = new Map<number, { readonly toolCallId: string; readonly isEdit: boolean }>();
  #messageId = "";

  constructor(agent: AgentInfo) {
    this.#agent = agent;
  }

  begin(usd: number | undefined): void {
    this.#usd = usd;
  }

  /** Yields the updates for the next event. `isOwn`: the editor shows the turn's first message already. */
  *of({ number, event }: NumberedEvent, { isOwn = false } = {}): Generator<SessionUpdate, void> {
    if (event.type === "step_start" || event.type === "message_added") this.#messageId = `m${number}`;
    let calls = 0;
    for (const { entry, before } of this.#transcript.apply(event)) {
      switch (entry?.kind) {
        case "user":
          if (isOwn && event.type === "turn_start") break;
          for (const content of contentBlocks(entry.content)) {
            yield { sessionUpdate: "user_message_chunk", content, messageId: `m${number}` };
          }
          break;
        case "reply":
          if (event.type === "text_delta") yield* this.#chunk("agent_message_chunk", event.text);
          else if (event.type === "reasoning_delta") yield* this.#chunk("agent_thought_chunk", event.text);
          else {
            const streamed = before?.kind === "reply" ? before : { text: "", reasoning: "" };
            if (streamed.reasoning === "") yield* this.#chunk("agent_thought_chunk", entry.reasoning);
            if (streamed.text === "") yield* this.#chunk("agent_message_chunk", entry.text);
          }
          break;
        case "call":
          if (before) yield* this.#changed(entry, event.type);
          else if (event.type === "approval_requested") yield this.#opened(entry, `a${number}.${event.id}`);
          else if (event.type === "tool_call") yield this.#opened(entry, `c${number}`);
          else if (event.type === "message_added" && !entry.result) {
            yield this.#opened(entry, `c${number}.${calls++}`);
          }
          break;
        case "warning":
          yield { sessionUpdate: "notice", severity: "warning", title: printableText(entry.message) };
      }
    }
    if (event.type === "step_end" || event.type === "reply_unfinished") yield this.#used(event);
    if (event.type === "turn_end" && event.reason !== "approval") yield* this.abandon();
  }

  idOf(id: string): string {
    const call = this.#transcript.openCalls.find((call) => call.id === id && this.#open.has(call.key));
    return call ? this.#open.get(call.key)!.toolCallId : id;
  }

  *abandon(): Generator<SessionUpdate, void> {
    for (const { toolCallId } of this.#open.values()) {
      yield { sessionUpdate: "tool_call_update", toolCallId, status: "failed" };
    }
    this.#open.clear();
  }

  #used(
    { usage: { promptTokens, outputTokens }, cost }: {
      readonly usage: Usage;
      readonly cost?: { readonly usd?: number };
    },
  ): SessionUpdate {
    if (cost?.usd !== undefined) this.#usd = (this.#usd ?? 0) + cost.usd;
    return {
      sessionUpdate: "usage_update",
      used: promptTokens + outputTokens,
      size: this.#agent.windowTokens,
      ...(this.#usd !== undefined && { cost: { amount: this.#usd, currency: "USD" } }),
    };
  }

  *#chunk(
    sessionUpdate: "agent_message_chunk" | "agent_thought_chunk",
    text: string,
  ): Generator<SessionUpdate, void> {
    if (text !== "") yield { sessionUpdate, content: { type: "text", text }, messageId: this.#messageId };
  }

  #opened(call: EntryOf<"call">, toolCallId: string): SessionUpdate {
    const { key, name, arguments: text, approval } = call;
    if (name === PLAN_TOOL_NAME) return this.#planned();
    const described = describeToolCall({ name, text, workspace: this.#agent.workspace });
    this.#open.set(key, { toolCallId, isEdit: described.content.length > 0 });
    const status = approval === "requested" ? "pending" : "in_progress";
    return { sessionUpdate: "tool_call", toolCallId, name, status, ...described };
  }

  #planned(): SessionUpdate {
    const { steps = [], done = 0 } = this.#transcript.plan ?? {};
    return {
      sessionUpdate: "plan",
      entries: steps.map((step, at) => ({
        content: printableText(step),
        priority: "medium",
        status: at < done ? "completed" : at === done ? "in_progress" : "pending",
      })),
    };
  }

  *#changed(
    { key, approval, output = "", result }: EntryOf<"call">,
    by: NumberedEvent["event"]["type"],
  ): Generator<SessionUpdate, void> {
    const openCall = this.#open.get(key);
    if (!openCall || by === "subagent_started") return;
    const { toolCallId, isEdit } = openCall;
    const update = { sessionUpdate: "tool_call_update", toolCallId } as const;
    if (by === "tool_output") return yield { ...update, content: toolText(output) };
    const isDenied = approval !== undefined && approval !== "requested" && approval.decision === "deny";
    if (!result) {
      const status: ToolCallStatus = isDenied
        ? "failed"
        : by === "approval_requested"
        ? "pending"
        : "in_progress";
      return yield { ...update, status };
    }
    this.#open.delete(key);
    const isFailed = result.error || isDenied;
    yield {
      ...update,
      status: isFailed ? "failed" : "completed",
      // A result would replace the visible diff.
      ...((isFailed || !isEdit) && { content: toolText(result.content) }),
    };
  }
}

/** Joins consecutive pieces of a text or output. */
export function joinDeltas(events: readonly NumberedEvent[]): readonly NumberedEvent[] {
  const joined: NumberedEvent[] = [];
  for (const numbered of events) {
    const { event } = numbered;
    const before = joined.at(-1)?.event;
    if (
      before && "text" in before && "text" in event && before.type === event.type &&
      event.type !== "turn_end" && Object(before).id === Object(event).id
    ) joined[joined.length - 1] = { ...numbered, event: { ...event, text: `${before.text}${event.text}` } };
    else joined.push(numbered);
  }
  return joined;
}
