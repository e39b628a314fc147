import { contentText, describeCall, type Message, type ToolCall } from "@tare/messages";
import type { PromptUnit } from "@tare/planner";

const WORD = /[A-Za-z0-9_./-]{8,}/g;

const known = new WeakMap<Message | ToolCall, ReadonlySet<string>>();

function remember(subject: Message | ToolCall, texts: () => readonly string[]): ReadonlySet<string> {
  let words = known.get(subject);
  if (!words) known.set(subject, words = new Set(texts().flatMap((text) => text.match(WORD) ?? [])));
  return words;
}

function argumentsOf(call: ToolCall): string {
  return describeCall(call).arguments;
}

/** The words of a call's arguments. */
export function callWords(call: ToolCall): ReadonlySet<string> {
  return remember(call, () => [argumentsOf(call)]);
}

/** The words of a message, those of its calls' arguments included. */
export function messageWords(message: Message): ReadonlySet<string> {
  return remember(message, () => [
    contentText(message.content),
    ...(message.role === "assistant" ? (message.tool_calls ?? []).map(argumentsOf) : []),
  ]);
}

/**
 * The words that a view shows, kept up to date from one view to the next by what changed between them.
 */
export class ShownWords {
  readonly #counts = new Map<string, number>();
  #units: readonly PromptUnit[] = [];
  #messages: readonly Message[] = [];

  /** Goes over to another view; `units` are those of its messages. */
  show(messages: readonly Message[], units: readonly PromptUnit[]): void {
    let same = 0;
    while (
      same < units.length && same < this.#units.length && units[same]?.hash === this.#units[same]?.hash
    ) {
      same++;
    }
    for (const message of this.#messages.slice(same)) this.#count(message, -1);
    for (const message of messages.slice(same)) this.#count(message, 1);
    this.#units = units;
    this.#messages = messages;
  }

  has(word: string): boolean {
    return (this.#counts.get(word) ?? 0) > 0;
  }

  #count(message: Message, by: 1 | -1): void {
    for (const word of messageWords(message)) this.#counts.set(word, (this.#counts.get(word) ?? 0) + by);
  }
}
