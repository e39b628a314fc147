import type { StoreRecord } from "@tare/session/internal";
import type { TurnEnd, TurnLedger } from "@tare/loop";
import { contentText, type FinishReason, type FunctionToolCall, type ToolDefinition } from "@tare/messages";
import { sliceText } from "@tare/messages/internal";
import { ApiError, type ResponseEventWriter } from "@tare/wire/internal";
import type { SseMessage } from "@tare/wire/internal/sse";
import { type Heartbeat, sseResponse } from "../http/dispatcher.ts";
import type { NumberedEvent } from "../sessions/session_types.ts";
import { toApiError, turnError } from "./errors.ts";
import type { ConversationPoint } from "./known_conversations.ts";

/** A piece of a turn's answer or, as reasoning, of its progress. */
export type TurnPart = Parameters<ResponseEventWriter["add"]>[0];

export interface TurnAnswer {
  /** Text of all steps, separated by blank lines. */
  readonly text: string;
  /** Reasoning, and a line per tool call, prompt rewrite and warning. */
  readonly progress: string;
  readonly calls: readonly FunctionToolCall[];
  readonly finish: FinishReason;
  readonly ledger: TurnLedger;
}

export interface ConversationTurn {
  readonly sessionId: string;
  readonly parts: AsyncGenerator<TurnPart, TurnAnswer>;
  readonly cancel: () => void;
  /** The session's point after the turn; never rejects. */
  readonly done: Promise<ConversationPoint>;
  /** Stores the conversation's name with this answer, in one commit with `more`. */
  readonly remember: (
    answer: Pick<TurnAnswer, "text" | "calls">,
    more?: readonly StoreRecord[],
  ) => Promise<void>;
}

/** UTF-16 code units of a call's arguments in a progress line. */
const MAX_ARGUMENTS = 200;

/**
 * Yields a turn's text and progress. Nothing is yielded before the model responds, so that an immediate failure can
 * be an HTTP error.
 * @param options.clientTools Tools that the client runs; their calls are only in the answer.
 * @param options.failure Returns the error that ended the turn, if any.
 * @throws {ApiError} if the turn ends without an answer.
 */
export async function* turnParts(
  events: AsyncIterable<Pick<NumberedEvent, "event">>,
  { clientTools, failure }: {
    readonly clientTools: readonly ToolDefinition[];
    readonly failure: () => Promise<unknown>;
  },
): AsyncGenerator<TurnPart, TurnAnswer> {
  let text = "";
  let progress = "";
  let waiting = "";
  let stepText = "";
  let stopped: FinishReason | undefined;
  let open: readonly FunctionToolCall[] = [];

  const addText = (piece: string): TurnPart[] => {
    const parting = stepText === "" && text !== "" ? "\n\n" : "";
    stepText += piece;
    text += parting + piece;
    return [...addProgress(""), { type: "text", text: parting + piece }];
  };
  const addProgress = (piece: string): TurnPart[] => {
    const chunk = `${waiting === "" ? "" : newLine()}${waiting}${piece}`;
    waiting = "";
    progress += chunk;
    return chunk === "" ? [] : [{ type: "reasoning", text: chunk }];
  };
  const newLine = () => progress === "" || progress.endsWith("\n") ? "" : "\n";

  for await (const { event } of events) {
    switch (event.type) {
      case "step_start":
        stepText = "";
        break;
      case "warning":
        waiting += `${event.message}\n`;
        break;
      case "context_rewritten": {
        const { mechanism, removed, reason, tokensBefore, tokensAfter } = event;
        waiting += `${mechanism}: ${removed} (${reason}); ${tokensBefore} → ${tokensAfter} tokens\n`;
        break;
      }
      case "text_delta":
        if (event.text !== "") yield* addText(event.text);
        break;
      case "reasoning_delta":
        yield* addProgress(event.text);
        break;
      case "assistant_message": {
        // Not every model streams its text.
        const { content, refusal } = event.message;
        const rest = missingText(contentText(content) || (refusal ?? ""), stepText);
        if (rest !== "") yield* addText(rest);
        open = (event.message.tool_calls ?? []).filter((call) => call.type === "function");
        break;
      }
      case "tool_call":
        yield* addProgress("");
        if (clientTools.some((tool) => tool.function.name === event.name)) break;
        yield* addProgress(
          `${newLine()}${event.parent === undefined ? "" : "  "}${event.name} ${shorten(event.arguments)}\n`,
        );
        break;
      case "tool_result":
        open = open.filter(({ id }) => id !== event.id);
        break;
      case "step_end":
        stopped = event.finishReason;
        break;
      case "turn_end": {
        const finish = finishOf(event, stopped);
        if (!finish) throw turnError(event, await failure());
        yield* addProgress("");
        return { text, progress, calls: open, finish, ledger: event.ledger };
      }
    }
  }
  throw new Error("Cannot answer: the turn's events ended before its end.");
}

function finishOf(
  { reason }: TurnEnd,
  stopped: FinishReason | undefined,
): TurnAnswer["finish"] | undefined {
  if (reason === "completed") return "stop";
  if (reason === "tool_calls") return reason;
  if (reason === "output_limit" || reason === "step_limit" || reason === "budget") return "length";
  return reason === "model_error" && stopped === "content_filter" ? "content_filter" : undefined;
}

function missingText(whole: string, sent: string): string {
  return whole.startsWith(sent) ? whole.slice(sent.length) : "";
}

function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > MAX_ARGUMENTS ? `${sliceText(line, 0, MAX_ARGUMENTS)}…` : line;
}

export const SESSION_HEADER = "tare-session";

export function cancelWithClient(turn: ConversationTurn, signal: AbortSignal): void {
  if (signal.aborted) turn.cancel();
  else signal.addEventListener("abort", () => turn.cancel(), { once: true });
}

/**
 * Streams a turn's messages as server-sent events, starting at the first. A disconnect cancels the turn.
 * @throws the error of `messages` before its first message.
 */
export async function streamTurn(
  turn: ConversationTurn,
  { messages, heartbeat }: {
    readonly messages: AsyncGenerator<SseMessage, void>;
    readonly heartbeat: Heartbeat;
  },
): Promise<Response> {
  let first: IteratorResult<SseMessage, void> | undefined = await messages.next();
  const iterator: AsyncIterator<SseMessage, void> = {
    next() {
      if (!first) return messages.next();
      const result = Promise.resolve(first);
      first = undefined;
      return result;
    },
    return() {
      turn.cancel();
      return messages.return();
    },
  };
  const response = sseResponse({ [Symbol.asyncIterator]: () => iterator }, heartbeat);
  response.headers.set(SESSION_HEADER, turn.sessionId);
  return response;
}

/** @throws {ApiError} if the turn ends without an answer. */
export async function readAnswer({ parts }: ConversationTurn): Promise<TurnAnswer> {
  for (;;) {
    const { done, value } = await parts.next();
    if (done) return value;
  }
}

/** Returns the error for a stream that has begun; `onError` receives the hidden details. */
export function streamError(error: unknown, onError: (error: unknown) => void): ReturnType<ApiError["body"]> {
  if (!(error instanceof ApiError)) onError(error);
  return toApiError(error).body();
}
