import type { CountTokens, Message } from "@tare/messages";
import { argumentsParser } from "@tare/messages/arguments";
import type { Edit, LedgerEntry, Plan } from "@tare/planner";
import { RECALL_TOOL, recallOriginal, type RecallRequest } from "@tare/prune";
import { expandHidden } from "./expand_hidden.ts";
import type { GatewaySession, Piece } from "./session.ts";
import type { Span } from "@tare/wire";
import type { RecallCall, TurnWriter, WireReply } from "@tare/wire";
import { askForUsage, type KnownParts, type WireRequest } from "@tare/wire";
import { predictCached } from "./predict_cached.ts";
import { plannedTools, writePrompt } from "./upstream_prompt.ts";

/** A response that a client follows, as the upstream knows it. */
export interface Followed {
  /** Its id at the upstream. */
  readonly upstreamId: string;
  /** Items that the upstream waits for and the client doesn't know of: answers to recalls. */
  readonly owed: readonly string[];
}

/** What a turn works with. */
export interface GatewayTurnOptions {
  /** The session that it belongs to. */
  readonly session: GatewaySession;
  /** The client's request. */
  readonly request: WireRequest;
  /** Whether the recall tool is offered. */
  readonly recall: boolean;
  /** The response that the request follows. Default: none that is known. */
  readonly follows?: Followed;
  /** Whether the upstream keeps the history itself, so that there is nothing to plan. */
  readonly stateful: boolean;
  /** Counts tokens. */
  readonly countTokens: CountTokens;
  /** What is remembered of earlier requests. */
  readonly known: KnownParts;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
}

const readRecall = argumentsParser(RECALL_TOOL);
const encoder = new TextEncoder();

/** One request of a client: a call of the upstream, or several if the model recalls. */
export class GatewayTurn {
  /** Passes the replies on. */
  readonly writer: TurnWriter;
  readonly #options: GatewayTurnOptions;
  /** What has come since the client's request. */
  readonly #added: Piece[] = [];
  /** Answers to recalls, by reply. */
  readonly #answers: (readonly string[])[] = [];
  #plan: Plan | undefined;
  #predicted = 0;
  #edited = false;

  /** A turn that has sent nothing yet. */
  constructor(options: GatewayTurnOptions) {
    const { request, recall } = options;
    this.#options = options;
    const asked = request.format.asksForUsage && request.stream;
    const name = recall ? RECALL_TOOL.function.name : undefined;
    this.writer = request.format.writer({ hidesUsage: asked && !asksForUsage(request), recall: name });
  }

  /** The newest plan. */
  get plan(): Plan | undefined {
    return this.#plan;
  }

  /** Tokens that the upstream's cache was expected to serve of it. */
  get predictedCachedTokens(): number {
    return this.#predicted;
  }

  /** Whether the upstream was sent anything but the client's own bytes. */
  get edited(): boolean {
    return this.#edited;
  }

  /** Plans the next call and gives its body. Turns of one session do so one after the other. */
  prompt(signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const { session } = this.#options;
    const planned = session.planning.then(() => this.#next(signal));
    session.planning = planned.catch(() => {});
    return planned;
  }

  async #next(signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
    const { session, request, recall, follows, stateful, countTokens, now } = this.#options;
    const items = request.items.map(({ value: message }, at): Piece => {
      const span = request.spans[at];
      return {
        message,
        ...(span && { bytes: listed(span, message, request) }),
      };
    });
    const { pieces: expanded, hidden } = expandHidden(items, session.hidden);
    session.hidden = hidden;
    const heads = expanded.filter(({ bytes }) => !bytes).length;
    const pieces = [
      ...expanded.slice(0, heads),
      ...(follows?.owed ?? []).map((json) => this.#pieceOf(json)),
      ...expanded.slice(heads),
      ...this.#added,
    ];
    const messages = pieces.map(({ message }) => message);
    const edits = stateful ? [] : validEdits(session.edits, messages);
    const plan = stateful ? undefined : await session.planner.plan({
      messages,
      tools: plannedTools(request.tools, recall),
      edits,
      nowMs: now(),
      model: request.model,
      signal,
    });
    if (plan) {
      session.edits = [...edits, ...plan.edits];
      if (plan.edits.length > 0) session.epoch++;
    }
    this.#plan = plan;
    // What was sent before is forgotten as soon as this call has succeeded.
    this.#predicted = plan ? predictCached(session.planner, plan, countTokens) : 0;
    const bytes = writePrompt(request, {
      pieces,
      edits: plan ? session.edits : [],
      recall,
      ...(follows && { previousId: follows.upstreamId }),
    });
    this.#edited ||= bytes !== request.bytes;
    return bytes;
  }

  /** Takes note of a reply. */
  sent(reply: WireReply): LedgerEntry | undefined {
    return this.#plan && this.#options.session.planner.sent(this.#plan, reply.usage);
  }

  /** Answers the recalls of a reply, so that the next call goes on behind them. */
  async recall(reply: WireReply): Promise<void> {
    const { request } = this.#options;
    const answers: string[] = [];
    for (const call of reply.recalls) {
      const content = await this.#answer(call);
      answers.push(request.format.writeMessage({ role: "tool", tool_call_id: call.id, content }));
    }
    this.#answers.push(answers);
    this.#added.push(...[...reply.items, ...answers].map((json) => this.#pieceOf(json)));
  }

  /** The turn is over: remembers what the client doesn't know of. */
  remember(): void {
    const { session, request } = this.#options;
    const after = request.items.length;
    const hidden = this.writer.hidden(this.#answers).map(({ anchor, replaces, items }) => ({
      after,
      anchor,
      replaces,
      pieces: items.map((json) => this.#pieceOf(json)),
    }));
    if (hidden.length > 0) session.hidden = [...session.hidden, ...hidden];
  }

  /** The answers that stand behind the last reply. */
  get lastAnswers(): readonly string[] {
    return this.#answers.at(-1) ?? [];
  }

  async #answer({ arguments: text }: RecallCall): Promise<string> {
    const { session, countTokens } = this.#options;
    const args = readRecall(text);
    if (!args.ok) return args.problem;
    try {
      const asked = args.value as Pick<RecallRequest, keyof RecallRequest>;
      return (await recallOriginal(session.archive, asked, { countTokens })).content;
    } catch (error) {
      return `Cannot recall: ${(error as Error).message}`;
    }
  }

  #pieceOf(json: string): Piece {
    const { known, request: { format } } = this.#options;
    const bytes = encoder.encode(json);
    const place = { start: 0, end: bytes.length, kind: format.name, read: format.readItem };
    return { message: known.messages.read(bytes, place).value, bytes };
  }
}

/** An item as it stands in a list: a text in place of the list is a message of the user. */
function listed(
  { start, end }: Span,
  message: Message,
  { bytes, fields, format }: WireRequest,
): Uint8Array<ArrayBuffer> {
  const isList = fields.get(format.listField)?.start === start;
  return isList ? encoder.encode(format.writeMessage(message)) : bytes.subarray(start, end);
}

function asksForUsage(request: WireRequest): boolean {
  return askForUsage(request) === undefined;
}

/** Edits of messages that are still there: a turn that failed may have left others. */
function validEdits(edits: readonly Edit[], messages: readonly Message[]): readonly Edit[] {
  return edits.filter((edit) => {
    if (edit.type === "compact") return true;
    if (edit.type !== "elide") return edit.to <= messages.length;
    const message = messages[edit.index];
    return message?.role === "tool" && message.tool_call_id === edit.toolCallId;
  });
}
