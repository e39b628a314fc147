import {
  CallPairing,
  type CountTokens,
  meantCall,
  type Message,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import {
  looksLikeError,
  parsePlaceholder,
  type PruneOptions,
  RECALL_TOOL,
  resultText,
  traitsOf,
} from "@tare/prune";
import { readCall } from "../retention/call_facts.ts";
import { hashLines, LineIndex } from "./line_index.ts";
import { notate, type Notated } from "./notation.ts";
import { labelOf, quotesOf, type Reference, saidText, type SayEdit } from "./say_edit.ts";

/** How results are said. */
export interface ArrivalOptions {
  readonly countTokens: CountTokens;
  readonly tools?: NonNullable<PruneOptions["tools"]>;
  readonly isError?: (message: ToolMessage, index: number) => boolean;
  /** Whether notation that says nothing goes. */
  readonly notation: boolean;
  /** Whether what the prompt shows already is sent as a reference. */
  readonly references: boolean;
}

/** How a result is said, before its original is archived. */
export type Draft = Omit<SayEdit, "ref">;

/** Shortest block that becomes a reference, in tokens, and how many times as long as its label it must be. */
const LEAST_TOKENS = 80;
const LABELS = 1.3;

/** A result that is shorter, in characters, stays as it is. */
const LEAST_CHARACTERS = 300;

/** So many messages' lines stay in memory. */
const KNOWN_PLACES = 64;

/** A message that was taken in. */
interface Taken {
  readonly message: Message;
  /** The call that it answers. */
  readonly call: ToolCall | undefined;
  /** Under which edit it is shown, or as which text. */
  edit?: Draft | undefined;
  text?: string | undefined;
}

/** Lines of a message that belong together; one that can't be meant is `undefined`. */
interface Passage {
  /** What the model knows them by. */
  readonly as: string;
  readonly lines: readonly (string | undefined)[];
}

/**
 * What a prompt shows, line by line, so that a new result says only what is new. All of it follows from the history and
 * its edits. A message costs what it says.
 */
export class Arrival {
  readonly #options: ArrivalOptions;
  #index = new LineIndex();
  #taken: Taken[] = [];
  #pairing = new CallPairing();
  /** Where what is known by a name stands, from the oldest on. */
  #places = new Map<string, number[]>();
  readonly #passages = new Map<number, readonly Passage[]>();

  /** Nothing is shown yet. */
  constructor(options: ArrivalOptions) {
    this.#options = options;
  }

  /** How many messages were taken in. */
  get length(): number {
    return this.#taken.length;
  }

  /** Forgets everything if a history doesn't go on from the one that was taken in. */
  follow(history: readonly Message[]): void {
    if (this.#taken.every(({ message }, at) => message === history[at])) return;
    this.#index = new LineIndex();
    this.#taken = [];
    this.#pairing = new CallPairing();
    this.#places = new Map();
    this.#passages.clear();
  }

  /** Takes in the next message. It counts once it is told how it is shown. */
  take(message: Message): void {
    this.#taken.push({ message, call: this.#pairing.add(message)?.call });
  }

  /** Takes note of how a message is shown from now on: as it is, after an edit, or as another text. */
  show(
    place: number,
    { edit, text }: { readonly edit?: Draft | undefined; readonly text?: string } = {},
  ): void {
    const taken = this.#taken[place]!;
    taken.edit = edit;
    taken.text = text;
    this.#passages.delete(place);
    const passages = this.#passagesOf(place);
    if (!this.#options.references || passages.length === 0) return;
    this.#index.add(place, passages.flatMap(({ lines }) => [...lines, undefined]));
    for (const name of new Set(passages.map(({ as }) => as))) {
      const places = this.#places.get(name);
      if (!places) this.#places.set(name, [place]);
      else if (!places.includes(place)) places.push(place);
    }
  }

  /**
   * How a result is best said; nothing if as it is.
   *
   * @param isShown Whether the model sees a message in front of it.
   */
  say(place: number, isShown: (place: number) => boolean): Draft | undefined {
    const { message, call } = this.#taken[place]!;
    const text = message.role === "tool" ? resultText(message) : undefined;
    if (message.role !== "tool" || text === undefined || !call || !this.#maySay(message, place, call)) {
      return undefined;
    }
    const { countTokens, notation, references } = this.#options;
    const fileText = this.#factsOf(call).reads;
    const notated = notate(text, { fileText, notation });
    const found = references ? this.#refer(notated, { place, isShown }) : [];
    const allTokens = countTokens(text);
    const tokensWith = (references: readonly Reference[]) =>
      countTokens(saidText(message, { fileText, notation, references }));
    const notationTokens = notation ? allTokens - tokensWith([]) : 0;
    const isShorter = notationTokens > 0 || found.length > 0 && tokensWith(found) < allTokens;
    if (!isShorter) return undefined;
    return {
      type: "say",
      index: place,
      toolCallId: message.tool_call_id,
      fileText,
      notation,
      notationTokens,
      references: found,
    };
  }

  #maySay(message: ToolMessage, place: number, call: ToolCall): boolean {
    const { tools, isError = looksLikeError } = this.#options;
    if ((resultText(message)?.length ?? 0) < LEAST_CHARACTERS) return false;
    if (message.failed ?? isError(message, place)) return false;
    const { name } = meantCall(call);
    return name !== RECALL_TOOL.function.name &&
      traitsOf(name, { ...(tools && { tools }) }).stance !== "keep";
  }

  /** The blocks of a text that the prompt shows in front of it, in order. */
  #refer(
    notated: Notated,
    { place, isShown }: { readonly place: number; readonly isShown: (place: number) => boolean },
  ): Reference[] {
    const { countTokens } = this.#options;
    const lines = withoutReminders(notated.lines);
    const hashes = hashLines(lines);
    const isAbove = (at: number) => at < place && isShown(at);
    const references: Reference[] = [];
    let from = 0;
    for (let at = 0; at < lines.length; at++) {
      const block = this.#index.find(hashes, { at, from }, isAbove);
      if (!block) continue;
      const trimmed = withoutBlanks(notated.lines, block);
      const as = this.#nameAt(block.source.place, block.source.from);
      const source = as === undefined
        ? undefined
        : this.#resolve(as, notated.lines.slice(trimmed.from, trimmed.to), isAbove, place);
      if (as !== undefined && source !== undefined) {
        const tokens = countTokens(notated.lines.slice(trimmed.from, trimmed.to).join("\n"));
        const labelTokens = countTokens(labelOf(notated, { ...trimmed, as }));
        if (tokens >= LEAST_TOKENS && tokens >= LABELS * labelTokens) {
          references.push({ ...trimmed, source, as, tokens: tokens - labelTokens });
          from = trimmed.to;
        }
      }
      at = Math.max(at, block.to - 1);
    }
    return references;
  }

  /**
   * The message that a label with this name and these lines' quotes means: the nearest above in which they stand. Nothing
   * if other lines answer to it there.
   */
  #resolve(
    as: string,
    block: readonly string[],
    isAbove: (place: number) => boolean,
    below: number,
  ): number | undefined {
    if (block.length === 0) return undefined;
    const { first, last } = quotesOf(block, { from: 0, to: block.length });
    for (const place of (this.#places.get(as) ?? []).toReversed()) {
      if (place >= below || !isAbove(place)) continue;
      for (const { as: name, lines } of this.#passagesOf(place)) {
        if (name !== as) continue;
        for (let at = 0; at + block.length <= lines.length; at++) {
          if (!lines[at]?.trim().startsWith(first)) continue;
          if (!lines[at + block.length - 1]?.trim().endsWith(last)) continue;
          return block.every((line, more) => lines[at + more] === line) ? place : undefined;
        }
      }
    }
    return undefined;
  }

  /** What the model knows a line of a message by. */
  #nameAt(place: number, line: number): string | undefined {
    let start = 0;
    for (const { as, lines } of this.#passagesOf(place)) {
      start += lines.length + 1;
      if (line < start) return as;
    }
    return undefined;
  }

  #passagesOf(place: number): readonly Passage[] {
    const known = this.#passages.get(place);
    if (known) return known;
    const passages = this.#readPassages(this.#taken[place]!);
    const [oldest] = this.#passages.keys();
    if (this.#passages.size >= KNOWN_PLACES && oldest !== undefined) this.#passages.delete(oldest);
    this.#passages.set(place, passages);
    return passages;
  }

  #readPassages({ message, call, edit, text }: Taken): readonly Passage[] {
    if (message.role === "assistant") {
      return (message.tool_calls ?? []).flatMap((call) => {
        const { texts, files: [file] } = this.#factsOf(call);
        const as = file ?? `the call of ${meantCall(call).name}`;
        return texts.map((text) => ({ as, lines: text.split("\n") }));
      });
    }
    const result = text ?? (message.role === "tool" ? resultText(message) : undefined);
    if (!call || result === undefined) return [];
    const { reads: fileText, files: [file] } = this.#factsOf(call);
    const { notation = false, references = [] } = edit ?? {};
    const lines: (string | undefined)[] = withoutReminders(notate(result, { fileText, notation }).lines);
    for (const { from, to } of references) lines.fill(undefined, from, to);
    const as = fileText && file !== undefined ? file : `the result of ${meantCall(call).name}`;
    return [{ as, lines }];
  }

  #factsOf(call: ToolCall): ReturnType<typeof readCall> {
    return readCall(call, this.#options.tools);
  }
}

/** The lines of a text but for what stands for others, and for what the harness adds to a result. */
function withoutReminders(lines: readonly string[]): (string | undefined)[] {
  let isReminder = false;
  return lines.map((line) => {
    isReminder ||= line.includes("<system-reminder>");
    const shown = isReminder || parsePlaceholder(line) ? undefined : line;
    if (line.includes("</system-reminder>")) isReminder = false;
    return shown;
  });
}

/** A block without the blank lines with which it begins and ends. */
function withoutBlanks(
  lines: readonly string[],
  { from, to }: { readonly from: number; readonly to: number },
): { readonly from: number; readonly to: number } {
  while (from < to && lines[from]!.trim() === "") from++;
  while (from < to && lines[to - 1]!.trim() === "") to--;
  return { from, to };
}
