/**
 * Transcript of a session: a pure reducer from its events to entries, which every display renders. A separate entry
 * point, so that a page bundles nothing else of the server.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { TranscriptReducer, updateEntries } from "@tare/server/internal/transcript";
 *
 * const transcript = new TranscriptReducer();
 * const entries = updateEntries([], [
 *   ...transcript.apply({ type: "turn_start", input: "Hello." }),
 *   ...transcript.apply({ type: "text_delta", step: 1, text: "Good " }),
 *   ...transcript.apply({ type: "text_delta", step: 1, text: "morning." }),
 * ]);
 * assertEquals(entries, [
 *   { key: 0, kind: "user", content: "Hello." },
 *   { key: 1, kind: "reply", text: "Good morning.", reasoning: "" },
 * ]);
 * ```
 *
 * @module
 */
import {
  type AssistantMessage,
  type Content,
  contentText,
  type FileChange,
  type Message,
  type Rewrite,
} from "@tare/messages";
import { describeCall, planAfter, sliceText, type WorkPlan } from "@tare/messages/internal";
import type { TurnEnd, TurnLedger } from "@tare/loop";
import type { SessionEvent } from "./sessions/session_types.ts";

/** Result of a tool call. An imported one has only content and images. */
export type CallResult =
  & Pick<Extract<SessionEvent, { readonly type: "tool_result" }>, "content">
  & Partial<
    Omit<Extract<SessionEvent, { readonly type: "tool_result" }>, "type" | "step" | "id" | "name" | "parent">
  >;

/** An entry of a transcript; `key` is its position. A changed entry is a new object. */
export type TranscriptEntry =
  & { readonly key: number }
  & (
    | { readonly kind: "instructions"; readonly text: string }
    | { readonly kind: "user"; readonly content: Content }
    | { readonly kind: "reply"; readonly text: string; readonly reasoning: string }
    | {
      readonly kind: "call";
      readonly id: string;
      readonly name: string;
      readonly arguments: string;
      readonly parent?: string;
      readonly subagent?: string;
      /** Pending approval, or its answer. */
      readonly approval?: "requested" | Extract<SessionEvent, { readonly type: "approval_answered" }>;
      readonly proposed?: FileChange;
      readonly output?: string;
      /** Absent while it runs. */
      readonly result?: CallResult;
    }
    | { readonly kind: "rewrite"; readonly rewrite: Rewrite }
    /** `isRepeated`: it equals the last warning. */
    | { readonly kind: "warning"; readonly message: string; readonly isRepeated?: true }
    | {
      readonly kind: "end";
      readonly reason: TurnEnd["reason"];
      readonly message?: string;
      /** True if the provider refused a request with images, which not every model accepts. */
      readonly refusedImages?: true;
      /** Cost since the turn's start or its last approval. */
      readonly ledger: TurnLedger;
    }
  );

/** An entry of one kind. */
export type EntryOf<Kind extends TranscriptEntry["kind"]> = Extract<TranscriptEntry, { readonly kind: Kind }>;

/** A change of one entry: absent `entry` if removed, absent `before` if new. */
export interface TranscriptChange {
  readonly entry?: TranscriptEntry;
  readonly before?: TranscriptEntry;
}

type Call = EntryOf<"call">;
type MadeCall = Pick<Call, "id" | "name" | "arguments" | "parent">;

/** Reduces the events of a session, in order, to changes of its transcript. It stores no settled entry. */
export class TranscriptReducer {
  #plan: WorkPlan | undefined;
  #length = 0;
  #reply: EntryOf<"reply"> | undefined;
  #open: Call[] = [];
  /** Ids of calls that have ended since the last reply, whose later output is ignored. */
  readonly #ended = new Set<string>();
  #warned: string | undefined;
  #hasImages = false;

  constructor({ plan }: { readonly plan?: WorkPlan | undefined } = {}) {
    this.#plan = plan;
  }

  get plan(): WorkPlan | undefined {
    return this.#plan;
  }

  get openCalls(): readonly EntryOf<"call">[] {
    return this.#open;
  }

  apply(event: SessionEvent): readonly TranscriptChange[] {
    return [...this.#changes(event)];
  }

  *#changes(event: SessionEvent): Generator<TranscriptChange, void> {
    switch (event.type) {
      case "message_added":
        return yield* this.#message(event.message);
      case "turn_start":
        if (event.input !== undefined) yield this.#texts(event.input);
        return;
      case "user_message":
        return yield this.#texts(event.input);
      case "step_start":
        return yield* this.#takeBack();
      case "turn_resumed":
        yield* this.#takeBack();
        return yield this.#warning("The server was restarted; the turn continues.");
      case "text_delta":
        return yield this.#grow("text", event.text);
      case "reasoning_delta":
        return yield this.#grow("reasoning", event.text);
      case "assistant_message":
        return yield* this.#replied(event.message);
      case "tool_call":
        return yield this.#called(event);
      case "tool_output": {
        if (this.#ended.has(event.id)) return;
        const call = this.#find(event.id);
        if (!call) return yield this.#begin({ id: event.id, name: "", arguments: "", output: event.text });
        return yield this.#change(call, { output: (call.output ?? "") + event.text });
      }
      case "tool_result": {
        const { type: _, step: __, id, name, parent, ...result } = event;
        return yield* this.#settle({ id, name, ...(parent !== undefined && { parent }), result });
      }
      case "subagent_started": {
        const call = this.#find(event.id);
        if (call) yield this.#change(call, { subagent: event.session });
        return;
      }
      case "approval_requested": {
        const call = this.#find(event.id);
        const pending = { approval: "requested", ...(event.change && { proposed: event.change }) } as const;
        return yield call ? this.#change(call, pending) : this.#begin({ ...callOf(event), ...pending });
      }
      case "approval_answered": {
        const call = this.#find(event.id);
        if (call) yield this.#change(call, { approval: event });
        return;
      }
      case "context_rewritten": {
        const { type: _, step: __, ...rewrite } = event;
        return yield { entry: { key: this.#length++, kind: "rewrite", rewrite } };
      }
      case "warning":
        return yield this.#warning(event.message);
      case "turn_end":
        return yield this.#end(event);
      case "step_end":
      case "reply_unfinished":
        return;
      default:
        // A newer server may send events that are unknown here.
        event satisfies never;
    }
  }

  *#message(message: Message): Generator<TranscriptChange, void> {
    switch (message.role) {
      case "user":
        return yield this.#texts(message.content);
      case "assistant":
        yield* this.#replied(message);
        for (const call of message.tool_calls ?? []) {
          yield this.#called({ id: call.id, ...describeCall(call) });
        }
        return;
      case "tool": {
        const { tool_call_id: id, content } = message;
        const images = typeof content === "string"
          ? []
          : content.flatMap((part) => part.type === "image_url" ? [part.image_url.url] : []);
        const result = { content: contentText(content), ...(images.length > 0 && { images }) };
        return yield* this.#settle({ id, name: id, result });
      }
      case "function": {
        const { name, content } = message;
        return yield* this.#settle({ id: name, name, result: { content: content ?? "" } });
      }
      case "system":
      case "developer":
        yield { entry: { key: this.#length++, kind: "instructions", text: contentText(message.content) } };
    }
  }

  #texts(content: Content): TranscriptChange {
    this.#hasImages ||= typeof content !== "string" && content.some(({ type }) => type === "image_url");
    return { entry: { key: this.#length++, kind: "user", content } };
  }

  #warning(message: string): TranscriptChange {
    const isRepeated = message === this.#warned;
    this.#warned = message;
    const entry = { key: this.#length++, kind: "warning", message } as const;
    return { entry: isRepeated ? { ...entry, isRepeated } : entry };
  }

  #grow(part: "text" | "reasoning", piece: string): TranscriptChange {
    const before = this.#reply;
    const reply = before ?? { key: this.#length++, kind: "reply", text: "", reasoning: "" };
    this.#reply = { ...reply, [part]: reply[part] + piece };
    return { entry: this.#reply, ...(before && { before }) };
  }

  *#takeBack(): Generator<TranscriptChange, void> {
    const before = this.#reply;
    this.#reply = undefined;
    if (before?.key !== this.#length - 1) return;
    this.#length--;
    yield { before };
  }

  *#replied(message: AssistantMessage): Generator<TranscriptChange, void> {
    // Each reply may reuse ids.
    this.#open = [];
    this.#ended.clear();
    const before = this.#reply;
    this.#reply = undefined;
    const text = contentText(message.content) || message.refusal || before?.text || "";
    const reasoning = message.reasoning_content || before?.reasoning || "";
    if (!before && text + reasoning === "") return;
    const key = before?.key ?? this.#length++;
    yield { entry: { key, kind: "reply", text, reasoning }, ...(before && { before }) };
  }

  #called(call: MadeCall): TranscriptChange {
    const known = call.parent === undefined ? undefined : this.#find(call.id);
    // A program's call that waited for approval was added then.
    if (known) return this.#change(known, {});
    if (call.parent === undefined) this.#plan = planAfter(this.#plan, call);
    return this.#begin(callOf(call));
  }

  #begin(call: Omit<Call, "key" | "kind">): TranscriptChange {
    const entry: Call = { key: this.#length++, kind: "call", ...call };
    this.#open.push(entry);
    return { entry };
  }

  /** Providers may reuse ids: the oldest call is answered first. */
  #find(id: string): Call | undefined {
    return this.#open.find((call) => call.id === id);
  }

  #change(before: Call, change: Partial<Call>): TranscriptChange {
    const entry = { ...before, ...change };
    this.#open = this.#open.map((call) => call === before ? entry : call);
    return { entry, before };
  }

  *#settle(
    { result, ...call }: Omit<MadeCall, "arguments"> & { readonly result: CallResult },
  ): Generator<TranscriptChange, void> {
    const before = this.#find(call.id);
    this.#open = this.#open.filter((open) => open !== before);
    this.#ended.add(call.id);
    // Imported sessions may have results without their calls.
    if (!before) yield { entry: { key: this.#length++, kind: "call", ...call, arguments: "", result } };
    else yield { entry: { ...before, ...(before.name === "" && { name: call.name }), result }, before };
  }

  #end({ reason, message, code, ledger }: TurnEnd): TranscriptChange {
    this.#reply = undefined;
    if (reason !== "approval" && reason !== "tool_calls") this.#open = [];
    return {
      entry: {
        ...{ key: this.#length++, kind: "end", reason, ledger },
        ...(message !== undefined && { message }),
        ...(code === "bad_request" && this.#hasImages && { refusedImages: true }),
      },
    };
  }
}

/** Applies changes to a list of entries, in place, and returns it. */
export function updateEntries(
  entries: TranscriptEntry[],
  changes: readonly TranscriptChange[],
): TranscriptEntry[] {
  for (const { entry } of changes) {
    if (entry) entries[entry.key] = entry;
    else entries.pop();
  }
  return entries;
}

/** Returns the values of a call's arguments in one line. */
export function shortArguments(text: string, chars: number): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return sliceText(text, 0, chars);
    const words = Object.values(value).map((one) => typeof one === "string" ? one : JSON.stringify(one));
    return sliceText(words.join(" · "), 0, chars).replaceAll(/\s+/g, " ");
  } catch {
    return sliceText(text, 0, chars);
  }
}

function callOf({ id, name, arguments: text, parent }: MadeCall): MadeCall {
  return { id, name, arguments: text, ...(parent !== undefined && { parent }) };
}
