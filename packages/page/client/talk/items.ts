import type { LoopEvent, TurnLedger } from "@tare/loop";
import type { AssistantMessage, Content, FileChange, Message, Rewrite, ToolCall } from "@tare/messages";
import type { TalkEvent } from "../api/sessions.ts";

/** What came of a tool call. */
export interface CallResult {
  readonly content: string;
  readonly error?: boolean;
  /** Milliseconds, where the call was watched. */
  readonly durationMs?: number;
  /** Pictures that the model was shown with it, as `data:` URLs. */
  readonly pictures?: readonly string[];
  /** What it has changed, where the call was watched. */
  readonly change?: FileChange;
  /** What the calls of a program came to, where it was watched. */
  readonly made?: Extract<TalkEvent, { readonly type: "tool_result" }>["made"];
}

type Shown =
  | { readonly kind: "instructions"; readonly text: string }
  | { readonly kind: "said"; readonly content: Content }
  | { readonly kind: "reply"; readonly text: string; readonly reasoning: string; readonly growing: boolean }
  | {
    readonly kind: "call";
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
    /** Whether a program calls it. */
    readonly isNested?: boolean;
    /** The session of the helper that works for it. */
    readonly helper?: string;
    /** Whether somebody is asked before it runs, and what was said. */
    readonly approval?: "asked" | Extract<TalkEvent, { readonly type: "approval_answered" }>;
    /** What it has put out so far, as far as it tells: the end of that. */
    readonly output?: string;
    /** Nothing while it runs. */
    readonly result?: CallResult;
  }
  | { readonly kind: "rewrite"; readonly rewrite: Rewrite }
  | { readonly kind: "warning"; readonly message: string }
  | {
    readonly kind: "end";
    /** Why it ended; `answered` where it asked, and what it asked is answered. */
    readonly reason: string;
    readonly message?: string;
    /** Whether the provider refused what holds pictures: not every model takes them. */
    readonly refusedPictures?: true;
    /** What the turn cost; absent where it went on, and is told at its end. */
    readonly ledger?: TurnLedger;
  };

/** One entry of a conversation as it is shown. It is replaced when it changes, so that the rest needs no drawing. */
export type Item = Shown & { readonly key: number };

/** Characters of a running call's output that are shown. */
const LIVE = 4_000;

/** A conversation as a list to show, made of messages that were said and of events as they happen. */
export class Items {
  readonly list: Item[] = [];
  /** Where each call stands: an id that is used again means the newest call. */
  readonly #calls = new Map<string, number>();
  #warned: string | undefined;

  /** Whether the model has said its last word: nothing is left to continue. */
  get isAnswered(): boolean {
    const last = this.list.findLast(({ kind }) => kind === "said" || kind === "reply" || kind === "call");
    return last === undefined || last.kind === "reply";
  }

  /** Adds a message of the history. */
  addMessage(message: Message): void {
    if (message.role === "user") this.#add({ kind: "said", content: message.content });
    else if (message.role === "assistant") this.#addReply(message);
    else if (message.role === "tool") {
      const pictures = picturesIn(message.content);
      this.#settle(message.tool_call_id, {
        content: plainText(message.content),
        ...(pictures.length > 0 && { pictures }),
      });
    } else if (message.role === "function") this.#settle(message.name, { content: message.content ?? "" });
    else this.#add({ kind: "instructions", text: plainText(message.content) });
  }

  /** Takes what has happened. */
  apply(event: TalkEvent): void {
    switch (event.type) {
      case "message_added":
        return this.addMessage(event.message);
      case "turn_start":
        if (event.input !== undefined) this.#add({ kind: "said", content: event.input });
        return;
      case "user_message":
        return this.#add({ kind: "said", content: event.input });
      case "text_delta":
        return this.#grow({ text: event.text });
      case "reasoning_delta":
        return this.#grow({ reasoning: event.text });
      case "assistant_message":
        return this.#finish(event.message);
      case "tool_call":
        return this.#addCall(event);
      case "turn_resumed":
        return this.#resume();
      case "helper_started":
        return this.#change(event.id, { helper: event.session });
      case "tool_output":
        return this.#putOut(event.id, event.text);
      case "tool_result": {
        const { id, content, error, durationMs, change, made, pictures } = event;
        const more = { ...(change && { change }), ...(made && { made }), ...(pictures && { pictures }) };
        return this.#settle(id, { content, error, durationMs, ...more });
      }
      case "context_rewritten": {
        const { type: _, step: __, ...rewrite } = event;
        return this.#add({ kind: "rewrite", rewrite });
      }
      case "warning":
        // Some are told in every turn, and once is enough.
        if (event.message !== this.#warned) this.#add({ kind: "warning", message: event.message });
        this.#warned = event.message;
        return;
      case "approval_asked":
        // What a program calls is told of when it runs.
        if (event.parent !== undefined) this.#addCall(event);
        return this.#change(event.id, { approval: "asked" });
      case "approval_answered":
        this.#change(event.id, { approval: event });
        return this.#isAnswered();
      case "turn_end":
        return this.#end(event);
      case "step_start":
        return this.#takeBack();
      case "step_end":
      case "reply_unfinished":
        return;
      default:
        // A newer server may tell of what this page doesn't know.
        event satisfies never;
    }
  }

  #add(shown: Shown): void {
    this.list.push({ ...shown, key: this.list.length });
  }

  #replace(at: number, shown: Shown): void {
    this.list[at] = { ...shown, key: at };
  }

  #grow({ text = "", reasoning = "" }: { readonly text?: string; readonly reasoning?: string }): void {
    const last = this.list.at(-1);
    if (last?.kind !== "reply" || !last.growing) {
      return this.#add({ kind: "reply", text, reasoning, growing: true });
    }
    this.#replace(last.key, { ...last, text: last.text + text, reasoning: last.reasoning + reasoning });
  }

  /** What was streamed of a reply that nobody has whole counts no more. */
  #takeBack(): void {
    const last = this.list.at(-1);
    if (last?.kind === "reply" && last.growing) this.list.pop();
  }

  #resume(): void {
    this.#takeBack();
    this.#add({ kind: "warning", message: "The server was started again, and the turn goes on." });
  }

  #finish(message: AssistantMessage): void {
    const { text, reasoning } = partsOf(message);
    const last = this.list.at(-1);
    if (last?.kind !== "reply" || !last.growing) {
      if (text + reasoning !== "") this.#add({ kind: "reply", text, reasoning, growing: false });
      return;
    }
    this.#replace(last.key, {
      ...last,
      text: text || last.text,
      reasoning: reasoning || last.reasoning,
      growing: false,
    });
  }

  #addReply(message: AssistantMessage): void {
    this.#finish(message);
    for (const call of message.tool_calls ?? []) this.#addCall(callOf(call));
  }

  #addCall(
    { id, name, arguments: text, parent }:
      & Pick<Extract<Shown, { kind: "call" }>, "id" | "name" | "arguments">
      & { readonly parent?: string },
  ): void {
    const known = this.list[this.#calls.get(id) ?? -1];
    if (parent !== undefined && known?.kind === "call" && !known.result) return;
    this.#calls.set(id, this.list.length);
    this.#add({ kind: "call", id, name, arguments: text, ...(parent !== undefined && { isNested: true }) });
  }

  #putOut(id: string, text: string): void {
    const call = this.list[this.#calls.get(id) ?? -1];
    if (call?.kind !== "call" || call.result) return;
    this.#change(id, { output: `${call.output ?? ""}${text}`.slice(-LIVE) });
  }

  #change(id: string, change: Partial<Extract<Shown, { kind: "call" }>>): void {
    const call = this.list[this.#calls.get(id) ?? -1];
    if (call?.kind === "call") this.#replace(call.key, { ...call, ...change });
  }

  #settle(id: string, result: CallResult): void {
    const at = this.#calls.get(id);
    const call = at === undefined ? undefined : this.list[at];
    // A result without its call was imported so.
    if (call?.kind !== "call") return this.#add({ kind: "call", id, name: id, arguments: "", result });
    this.#replace(call.key, { ...call, result });
  }

  #end({ reason, message, code, ledger, whole }: Extract<LoopEvent, { type: "turn_end" }>): void {
    const last = this.list.at(-1);
    if (last?.kind === "reply" && last.growing) this.#replace(last.key, { ...last, growing: false });
    if (whole) this.#goesOn();
    const isRefused = code === "bad_request" && this.list.some(hasPicture);
    this.#add({
      ...{ kind: "end", reason, ledger: whole ?? ledger },
      ...(message !== undefined && { message }),
      ...(isRefused && { refusedPictures: true }),
    });
  }

  /** A turn that asked waits no longer, once all that it asked is answered. */
  #isAnswered(): void {
    if (this.list.some((item) => item.kind === "call" && item.approval === "asked")) return;
    const end = this.list.findLast(({ kind }) => kind === "end");
    if (end?.kind === "end" && end.reason === "approval") {
      this.#replace(end.key, { ...end, reason: "answered" });
    }
  }

  /** What a turn cost that went on with answers is told once. */
  #goesOn(): void {
    for (const { kind, key } of this.list.toReversed()) {
      if (kind === "said") return;
      const item = this.list[key];
      if (item?.kind !== "end") continue;
      const { ledger: _, ...rest } = item;
      this.#replace(key, rest);
    }
  }
}

/** The pictures in a content that a page may show: what stands elsewhere isn't fetched. */
export function picturesIn(content: Content): readonly string[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) =>
    part.type === "image_url" && PICTURE.test(part.image_url.url) ? [part.image_url.url] : []
  );
}

const PICTURE = /^data:image\/(png|jpeg|gif|webp);/;

function hasPicture(item: Item): boolean {
  return item.kind === "said" && typeof item.content !== "string" &&
    item.content.some(({ type }) => type === "image_url");
}

function partsOf({ content, refusal, reasoning_content }: AssistantMessage) {
  return { text: plainText(content ?? "") || (refusal ?? ""), reasoning: reasoning_content ?? "" };
}

function callOf(call: ToolCall) {
  const { name, text } = call.type === "custom"
    ? { name: call.custom.name, text: call.custom.input }
    : { name: call.function.name, text: call.function.arguments };
  return { id: call.id, name, arguments: text };
}

/** The text of a content: its text parts, and a word for each part that is none. */
export function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "text") return part.text;
    return part.type === "refusal" ? part.refusal : `(${part.type.replace("_url", "")})`;
  }).join("\n");
}
