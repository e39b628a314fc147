import { toOpenaiError } from "./openai_error.ts";
import { type OutputItem, type ResponseBody, responseUsage, toSeconds } from "./openai_response.ts";
import type { TurnAnswer, TurnPart } from "./turn_parts.ts";

/** An event of a streamed response. */
export interface ResponseEvent {
  /** What happened. */
  readonly type: string;
  /** Position in the stream, from 0. */
  readonly sequence_number: number;
  /** The fields of its type. */
  readonly [field: string]: unknown;
}

/** What the events of a response are made with. */
export interface ResponseEventsOptions {
  /** The response before anything is said. */
  readonly draft: ResponseBody;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Called with a response that hasn't failed, before clients are told that it has ended. */
  readonly ended: (response: ResponseBody, answer: TurnAnswer) => void;
}

/** What one kind of item is called in the events and made of. */
interface Kind {
  readonly prefix: string;
  readonly index: string;
  readonly part: string;
  readonly text: string;
  /** Further fields of the events that carry text. */
  readonly textFields: object;
  readonly makePart: (text: string) => object;
  readonly makeItem: (id: string, status: OutputItem["status"], text?: string) => OutputItem;
}

const LISTS = { annotations: [], logprobs: [] } as const;

const KINDS: Readonly<Record<TurnPart["type"], Kind>> = {
  text: {
    prefix: "msg",
    index: "content_index",
    part: "content_part",
    text: "output_text",
    textFields: { logprobs: [] },
    makePart: (text) => ({ type: "output_text", text, ...LISTS }),
    makeItem: (id, status, text) => ({
      id,
      type: "message",
      role: "assistant",
      status,
      content: text === undefined ? [] : [{ type: "output_text", text, ...LISTS }],
    }),
  },
  progress: {
    prefix: "rs",
    index: "summary_index",
    part: "reasoning_summary_part",
    text: "reasoning_summary_text",
    textFields: {},
    makePart: (text) => ({ type: "summary_text", text }),
    makeItem: (id, status, text) => ({
      id,
      type: "reasoning",
      status,
      summary: text === undefined ? [] : [{ type: "summary_text", text }],
    }),
  },
};

/**
 * The events of a response in their documented order, and at last the response itself. Each stretch of progress is a
 * reasoning item with a summary, each stretch of text a message. The first event waits until the turn says something.
 *
 * @throws {OpenaiError} if the turn fails; once it has said something, `response.failed` is told before.
 */
export async function* responseEvents(
  parts: AsyncGenerator<TurnPart, TurnAnswer>,
  { draft, now, ended }: ResponseEventsOptions,
): AsyncGenerator<ResponseEvent, ResponseBody> {
  let sequence = 0;
  const event = (type: string, fields: object): ResponseEvent => ({
    type: `response.${type}`,
    sequence_number: sequence++,
    ...fields,
  });
  const output: OutputItem[] = [];
  let open: { readonly type: TurnPart["type"]; readonly id: string; readonly text: string } | undefined;

  function* place(kind: Kind, type: string, id: string, fields: object): Generator<ResponseEvent> {
    yield event(type, { item_id: id, output_index: output.length, [kind.index]: 0, ...fields });
  }
  function* begin(type: TurnPart["type"]): Generator<ResponseEvent> {
    const kind = KINDS[type];
    const id = `${kind.prefix}_${hexOf(draft.id)}_${output.length}`;
    open = { type, id, text: "" };
    yield event("output_item.added", { output_index: output.length, item: kind.makeItem(id, "in_progress") });
    yield* place(kind, `${kind.part}.added`, id, { part: kind.makePart("") });
  }
  function* add({ type, text }: TurnPart): Generator<ResponseEvent> {
    if (open?.type !== type) {
      yield* finish("completed");
      yield* begin(type);
    }
    if (!open) return;
    const kind = KINDS[type];
    open = { ...open, text: open.text + text };
    yield* place(kind, `${kind.text}.delta`, open.id, { delta: text, ...kind.textFields });
  }
  function* finish(status: OutputItem["status"]): Generator<ResponseEvent> {
    if (!open) return;
    const { type, id, text } = open;
    open = undefined;
    const kind = KINDS[type];
    yield* place(kind, `${kind.text}.done`, id, { text, ...kind.textFields });
    yield* place(kind, `${kind.part}.done`, id, { part: kind.makePart(text) });
    const item = kind.makeItem(id, status, text);
    yield event("output_item.done", { output_index: output.length, item });
    output.push(item);
  }

  let part = await parts.next();
  yield event("created", { response: draft });
  yield event("in_progress", { response: draft });
  try {
    for (; !part.done; part = await parts.next()) yield* add(part.value);
  } catch (error) {
    yield* finish("incomplete");
    const failed: ResponseBody = { ...draft, status: "failed", error: failureOf(error), output };
    yield event("failed", { response: failed });
    throw error;
  }
  const answer = part.value;
  const isWhole = answer.finish === "stop";
  yield* finish(isWhole ? "completed" : "incomplete");
  const response: ResponseBody = {
    ...draft,
    status: isWhole ? "completed" : "incomplete",
    completed_at: isWhole ? toSeconds(now()) : null,
    incomplete_details: isWhole
      ? null
      : { reason: answer.finish === "length" ? "max_output_tokens" : "content_filter" },
    output,
    usage: responseUsage(answer.ledger),
  };
  ended(response, answer);
  yield event(response.status, { response });
  return response;
}

/** The hexadecimal digits of a response's name, or of the name of one of its items. */
export function hexOf(id: string): string | undefined {
  return /^(?:resp|msg|rs)_([0-9a-f]{32})(?:_\d+)?$/.exec(id)?.[1];
}

/** The codes that the format knows for a failed response. */
function failureOf(error: unknown): ResponseBody["error"] {
  const { status, message } = toOpenaiError(error);
  const code = status === 429 ? "rate_limit_exceeded" : status === 400 ? "invalid_prompt" : "server_error";
  return { code, message };
}
