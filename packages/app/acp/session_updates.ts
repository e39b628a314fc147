import type { ContentBlock, PlanEntryStatus, SessionUpdate, ToolCallStatus } from "@agentclientprotocol/sdk";
import { type AssistantMessage, type Content, contentText, type Usage } from "@tare/messages";
import { describeCall, PLAN_TOOL_NAME, planAfter, type WorkPlan } from "@tare/messages/internal";
import type { NumberedEvent } from "@tare/server";
import type { AgentInfo } from "../agent_client.ts";
import { contentBlocks } from "./prompt_content.ts";
import { shownText } from "../terminal/shown_text.ts";
import { describeToolCall, toolText } from "./tool_calls.ts";

/** A call that has no result yet. */
interface OpenCall {
  /** The provider's name for it, which others may have too. */
  readonly id: string;
  /** The editor's. */
  readonly toolCallId: string;
  readonly isEdit: boolean;
  output: string;
  isDenied: boolean;
}

/** A call as the model makes it. */
interface MadeCall extends Pick<OpenCall, "id" | "toolCallId"> {
  readonly name: string;
  readonly arguments: string;
}

/** Turns a session's events, in order, into what an editor is told. The same events give the same updates and ids. */
export class SessionUpdates {
  readonly #agent: AgentInfo;
  /** What the session has cost, in US dollars; undefined where prices aren't known. */
  #usd: number | undefined;
  #open: OpenCall[] = [];
  #plan: WorkPlan | undefined;
  #messageId = "";
  #isStreamed = false;

  /** For a session of this agent. */
  constructor(agent: AgentInfo) {
    this.#agent = agent;
  }

  /** The session has cost so much so far, in US dollars; undefined where prices aren't known. */
  begin(usd: number | undefined): void {
    this.#usd = usd;
  }

  /** What an editor is told of the next event. `isOwn` is a turn whose first message the editor shows already. */
  *of({ number, event }: NumberedEvent, { isOwn = false } = {}): Generator<SessionUpdate, void> {
    switch (event.type) {
      case "turn_start":
        if (!isOwn && event.input !== undefined) yield* this.#userSaid(number, event.input);
        return;
      case "user_message":
        return yield* this.#userSaid(number, event.input);
      case "step_start":
        this.#messageId = `m${number}`;
        this.#isStreamed = false;
        return;
      case "text_delta":
        this.#isStreamed = true;
        return yield this.#chunk("agent_message_chunk", event.text);
      case "reasoning_delta":
        this.#isStreamed = true;
        return yield this.#chunk("agent_thought_chunk", event.text);
      case "assistant_message":
        if (!this.#isStreamed) yield* this.#agentSaid(event.message);
        return;
      case "message_added":
        return yield* this.#added(number, event.message);
      case "tool_call": {
        // A program's call that somebody was asked about is told once it runs.
        const asked = event.parent === undefined ? undefined : this.#find(event.id);
        if (!asked) return yield this.#called({ ...event, toolCallId: `c${number}` });
        const { toolCallId } = asked;
        return yield { sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" };
      }
      case "tool_output": {
        const call = this.#find(event.id);
        if (!call) return;
        call.output += event.text;
        return yield {
          sessionUpdate: "tool_call_update",
          toolCallId: call.toolCallId,
          content: toolText(call.output),
        };
      }
      case "tool_result":
        return yield* this.#closed(event);
      case "warning":
        return yield { sessionUpdate: "notice", severity: "warning", title: shownText(event.message) };
      case "approval_asked": {
        const call = this.#find(event.id);
        if (!call) return yield this.#opened({ ...event, toolCallId: `a${number}.${event.id}` }, "pending");
        return yield { sessionUpdate: "tool_call_update", toolCallId: call.toolCallId, status: "pending" };
      }
      case "approval_answered": {
        const call = this.#find(event.id);
        if (!call) return;
        call.isDenied = event.decision === "deny";
        const status = call.isDenied ? "failed" : "in_progress";
        return yield { sessionUpdate: "tool_call_update", toolCallId: call.toolCallId, status };
      }
      case "turn_end":
        // Calls that somebody is asked for stay open.
        if (event.reason !== "approval") yield* this.abandon();
        return;
      case "step_end":
      case "reply_unfinished":
        return yield this.#used(event.usage, event.cost?.usd);
      case "turn_resumed":
        return yield {
          sessionUpdate: "notice",
          severity: "warning",
          title: "The server was started again, and the turn goes on.",
        };
      case "helper_started":
      case "context_rewritten":
        return;
      default:
        return event satisfies never;
    }
  }

  /** The editor's name for the open call that the provider calls `id`. */
  idOf(id: string): string {
    return this.#find(id)?.toolCallId ?? id;
  }

  /** Says of calls whose result nobody will tell any more that they failed. */
  *abandon(): Generator<SessionUpdate, void> {
    for (const { toolCallId } of this.#open) {
      yield { sessionUpdate: "tool_call_update", toolCallId, status: "failed" };
    }
    this.#open = [];
  }

  *#userSaid(number: number, said: Content): Generator<SessionUpdate, void> {
    for (const content of contentBlocks(said)) {
      yield { sessionUpdate: "user_message_chunk", content, messageId: `m${number}` };
    }
  }

  *#agentSaid(
    { content, refusal, reasoning_content: thought }: AssistantMessage,
  ): Generator<SessionUpdate, void> {
    if (thought) yield this.#chunk("agent_thought_chunk", thought);
    const text = contentText(content) || refusal;
    if (text) yield this.#chunk("agent_message_chunk", text);
  }

  *#added(
    number: number,
    message: Extract<NumberedEvent["event"], { type: "message_added" }>["message"],
  ): Generator<SessionUpdate, void> {
    this.#messageId = `m${number}`;
    if (message.role === "user") yield* this.#userSaid(number, message.content);
    if (message.role === "assistant") {
      yield* this.#agentSaid(message);
      for (const [index, call] of (message.tool_calls ?? []).entries()) {
        yield this.#called({ id: call.id, ...describeCall(call), toolCallId: `c${number}.${index}` });
      }
    }
    if (message.role === "tool") {
      yield* this.#closed({ id: message.tool_call_id, content: contentText(message.content), error: false });
    }
  }

  #used({ promptTokens, outputTokens }: Usage, usd: number | undefined): SessionUpdate {
    if (usd !== undefined) this.#usd = (this.#usd ?? 0) + usd;
    return {
      sessionUpdate: "usage_update",
      used: promptTokens + outputTokens,
      size: this.#agent.windowTokens,
      ...(this.#usd !== undefined && { cost: { amount: this.#usd, currency: "USD" } }),
    };
  }

  #chunk(sessionUpdate: "agent_message_chunk" | "agent_thought_chunk", text: string): SessionUpdate {
    const content: ContentBlock = { type: "text", text };
    return { sessionUpdate, content, messageId: this.#messageId };
  }

  /** Editors have a place of their own for the plan. */
  #called(call: MadeCall): SessionUpdate {
    if (call.name !== PLAN_TOOL_NAME) return this.#opened(call);
    this.#plan = planAfter(this.#plan, call);
    const { steps = [], done = 0 } = this.#plan ?? {};
    const statusOf = (at: number): PlanEntryStatus =>
      at < done ? "completed" : at === done ? "in_progress" : "pending";
    return {
      sessionUpdate: "plan",
      entries: steps.map((step, at) => ({
        content: shownText(step),
        priority: "medium",
        status: statusOf(at),
      })),
    };
  }

  #opened(
    { id, name, arguments: text, toolCallId }: MadeCall,
    status: ToolCallStatus = "in_progress",
  ): SessionUpdate {
    const shown = describeToolCall({ name, text, workspace: this.#agent.workspace });
    this.#open.push({ id, toolCallId, isEdit: shown.content.length > 0, output: "", isDenied: false });
    return { sessionUpdate: "tool_call", toolCallId, name, status, ...shown };
  }

  *#closed(
    { id, content, error }: { readonly id: string; readonly content: string; readonly error: boolean },
  ): Generator<SessionUpdate, void> {
    const call = this.#find(id);
    if (!call) return;
    this.#open = this.#open.filter((open) => open !== call);
    const isFailed = error || call.isDenied;
    yield {
      sessionUpdate: "tool_call_update",
      toolCallId: call.toolCallId,
      status: isFailed ? "failed" : "completed",
      // What an edit has changed stays to be seen.
      ...((isFailed || !call.isEdit) && { content: toolText(content) }),
    };
  }

  /** Providers may give several calls one id: the oldest is answered first. */
  #find(id: string): OpenCall | undefined {
    return this.#open.find((call) => call.id === id);
  }
}

/** The same with pieces of one text in one, and of a call's growing output only all of it. */
export function* joinPieces(updates: Iterable<SessionUpdate>): Generator<SessionUpdate, void> {
  let held: SessionUpdate | undefined;
  for (const update of updates) {
    const joined = held && join(held, update);
    if (held && !joined) yield held;
    held = joined ?? update;
  }
  if (held) yield held;
}

function join(first: SessionUpdate, next: SessionUpdate): SessionUpdate | undefined {
  if (first.sessionUpdate === "tool_call_update" && next.sessionUpdate === "tool_call_update") {
    return !first.status && first.toolCallId === next.toolCallId ? { ...first, ...next } : undefined;
  }
  if (first.sessionUpdate !== "agent_message_chunk" && first.sessionUpdate !== "agent_thought_chunk") return;
  if (next.sessionUpdate !== first.sessionUpdate || next.messageId !== first.messageId) return;
  if (first.content.type !== "text" || next.content.type !== "text") return;
  return { ...first, content: { type: "text", text: first.content.text + next.content.text } };
}
