import { countMessageTokens, type CountTokens, type Message } from "@tare/messages";
import { parsePlaceholder } from "@tare/prune";
import type { Edit } from "./edit.ts";
import { type PlacedMessages, placeMessages } from "./view.ts";

/** Tokens of what the model sees of a history. */
export interface LayoutSums {
  /** System and developer messages. */
  readonly core: number;
  /** What user and model said. */
  readonly said: number;
  /** Results that are there. */
  readonly results: number;
  /** Lines that stand for what left. */
  readonly placeholders: number;
}

const NO_SUMS: LayoutSums = { core: 0, said: 0, results: 0, placeholders: 0 };

/**
 * A history that grows and what the model sees of it, laid out in rows with their tokens. A new message costs what it
 * says; only a rewrite lays everything out again.
 */
export class Layout {
  readonly #countTokens: CountTokens;
  #history: Message[] = [];
  #edits: readonly Edit[] = [];
  #placed: { messages: Message[]; places: number[]; elided: Message[] } = {
    messages: [],
    places: [],
    elided: [],
  };
  /** Tokens up to the end of each row. */
  #ends: number[] = [];
  /** Tokens up to the end of each message of the history, as it was said. */
  #fullEnds: number[] = [];
  /** The row of each message; −1 if it left. */
  #rows: number[] = [];
  /** Results in whose place a line stands. */
  #elided = new Set<number>();
  /** Tokens up to the end of each row that user and model said. */
  #saidEnds: number[] = [];
  #sums: LayoutSums = NO_SUMS;
  #version = 0;

  /** An empty layout, or a copy. */
  constructor(countTokens: CountTokens, other?: Layout) {
    this.#countTokens = countTokens;
    if (!other) return;
    this.#history = [...other.#history];
    this.#edits = other.#edits;
    const { messages, places, elided } = other.#placed;
    this.#placed = { messages: [...messages], places: [...places], elided: [...elided] };
    this.#ends = [...other.#ends];
    this.#fullEnds = [...other.#fullEnds];
    this.#rows = [...other.#rows];
    this.#elided = new Set(other.#elided);
    this.#saidEnds = [...other.#saidEnds];
    this.#sums = other.#sums;
  }

  /** Whether a history starts with the messages that are laid out. */
  isStartOf(history: readonly Message[]): boolean {
    return this.sharedLength(history) === this.#history.length;
  }

  /** How many messages of the history are the same as those that are laid out. */
  sharedLength(history: readonly Message[]): number {
    let at = 0;
    while (at < this.#history.length && this.#history[at] === history[at]) at++;
    return at;
  }

  /**
   * Lays out a history after these edits.
   *
   * @returns Tokens at the start of the prompt that are as they were; infinite if it only grew.
   */
  update(history: readonly Message[], edits: readonly Edit[]): number {
    const shared = this.sharedLength(history);
    if (edits === this.#edits && shared === this.#history.length) {
      for (let at = shared; at < history.length; at++) this.#append(history[at]!);
      return Infinity;
    }
    const before = this.#placed.messages;
    const ends = this.#ends;
    this.#relay(history, edits, shared);
    const { messages } = this.#placed;
    let row = 0;
    while (row < before.length && before[row] === messages[row]) row++;
    return row === before.length ? Infinity : ends[row - 1] ?? 0;
  }

  /** What the model sees. */
  get placed(): PlacedMessages {
    return this.#placed;
  }

  /** Tokens of all that the model sees. */
  get tokens(): number {
    return this.#ends.at(-1) ?? 0;
  }

  /** Tokens of the whole history. */
  get fullTokens(): number {
    return this.#fullEnds.at(-1) ?? 0;
  }

  /** Tokens of a message as it was said. */
  fullTokensOf(at: number): number {
    return (this.#fullEnds[at] ?? 0) - (this.#fullEnds[at - 1] ?? 0);
  }

  /** Where a message stands that is shown itself, and what it takes; nothing if it left. */
  find(
    at: number,
  ): { readonly start: number; readonly tokens: number; readonly message: Message } | undefined {
    const row = this.#rows[at] ?? -1;
    const message = this.#placed.messages[row];
    if (!message || this.#elided.has(at)) return undefined;
    const start = this.#ends[row - 1] ?? 0;
    return { start, tokens: (this.#ends[row] ?? 0) - start, message };
  }

  /** Position of the first message behind which, itself included, stand at most so many tokens. */
  tailStart(tokens: number): number {
    const { places } = this.#placed;
    let [low, high] = [0, places.length];
    while (low < high) {
      const row = (low + high) >> 1;
      if (this.tokens - (this.#ends[row - 1] ?? 0) <= tokens) high = row;
      else low = row + 1;
    }
    while (places[low] === -1) low++;
    return places[low] ?? this.#history.length;
  }

  /** Tokens that a message takes, or the line in its place; zero if it left with others. */
  tokensAt(at: number): number {
    const row = this.#rows[at] ?? -1;
    return row < 0 ? 0 : this.#ends[row]! - (this.#ends[row - 1] ?? 0);
  }

  /** Tokens by what they are. */
  get sums(): LayoutSums {
    return this.#sums;
  }

  /** Tokens in front of a message that user and model said. */
  saidBefore(at: number): number {
    return this.#saidEnds[(this.#rows[at] ?? this.#saidEnds.length) - 1] ?? 0;
  }

  /** What each elision keeps out, by position. */
  *elisions(): Generator<{ readonly at: number; readonly saved: number }> {
    const { places, messages } = this.#placed;
    for (let row = 0; row < places.length; row++) {
      const at = places[row]!;
      if (at >= 0 && messages[row] !== this.#history[at]) {
        yield { at, saved: this.fullTokensOf(at) - this.tokensAt(at) };
      }
    }
  }

  /** Another number for each rewrite. */
  get version(): number {
    return this.#version;
  }

  #append(message: Message): void {
    const at = this.#history.push(message) - 1;
    const tokens = countMessageTokens(message, this.#countTokens);
    this.#fullEnds.push(this.fullTokens + tokens);
    this.#addRow(message, { tokens, isLine: false });
    this.#rows.push(this.#placed.messages.push(message) - 1);
    this.#placed.places.push(at);
    this.#placed.elided.push(message);
  }

  #relay(history: readonly Message[], edits: readonly Edit[], shared: number): void {
    this.#history = [...history];
    this.#edits = edits;
    this.#fullEnds.length = shared;
    for (const message of history.slice(shared)) {
      this.#fullEnds.push(this.fullTokens + countMessageTokens(message, this.#countTokens));
    }
    const { messages, places, elided } = placeMessages(history, edits);
    this.#placed = { messages: [...messages], places: [...places], elided: [...elided] };
    this.#rows = history.map(() => -1);
    this.#elided = new Set(
      edits.flatMap((edit) => edit.type === "elide" && isPlaceholder(edit.text) ? [edit.index] : []),
    );
    this.#ends = [];
    this.#saidEnds = [];
    this.#sums = NO_SUMS;
    this.#version++;
    for (const [row, message] of messages.entries()) {
      const place = places[row] ?? -1;
      const tokens = countMessageTokens(message, this.#countTokens);
      this.#addRow(message, { tokens, isLine: message !== history[place] });
      if (place >= 0) this.#rows[place] = row;
    }
  }

  #addRow(
    { role }: Message,
    { tokens, isLine }: { readonly tokens: number; readonly isLine: boolean },
  ): void {
    this.#ends.push(this.tokens + tokens);
    const kind = isLine
      ? "placeholders"
      : role === "system" || role === "developer"
      ? "core"
      : role === "tool"
      ? "results"
      : "said";
    this.#sums = { ...this.#sums, [kind]: this.#sums[kind] + tokens };
    this.#saidEnds.push(this.#sums.said);
  }
}

/** Whether a text stands for all of a result. One that was truncated on arrival still shows head and tail. */
function isPlaceholder(text: string): boolean {
  return parsePlaceholder(text.split("\n", 1)[0] ?? "")?.of === "result";
}
