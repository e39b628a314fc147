import {
  contentText,
  countMessageTokens,
  type CountTokens,
  hashBytes,
  hashText,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { PrefixCache, type PromptUnit, promptUnits } from "@tare/planner/parts";

/** What a prompt takes here for each of its messages and tools, in bytes. */
const UNIT_BYTES = 200;

/** Characters of the instructions and first words of a prompt that are told apart, about a block of a cache. */
const PIECE_CHARS = 500;

/** A prompt that is sent. */
export interface HeldPrompt {
  readonly client: string;
  readonly model: string;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  /** Behind how many messages the provider is asked to cache it; 0 is behind the tools. Absent: it caches all of it. */
  readonly ends: readonly number[] | undefined;
  readonly countTokens: CountTokens;
}

/**
 * The prompts that providers have read, whatever session they were of, as their caches know them: up to the marks where
 * a request has some. Takes at most `maxBytes` bytes; what was used longest ago is forgotten first.
 */
export class HeldPrompts {
  readonly #cache: PrefixCache;
  readonly #pieces = new WeakMap<Message, readonly PromptUnit[]>();

  /** None was read. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    // How long each is held a session finds out by itself.
    const rules = { minTokens: 0, blockTokens: 1, ttlMs: Infinity };
    this.#cache = new PrefixCache(rules, { maxUnits: Math.ceil(maxBytes / UNIT_BYTES) });
  }

  /** Tokens with which a prompt begins like one that was read, counted here. */
  held(prompt: HeldPrompt): number {
    return this.#cache.held(this.#unitsOf(prompt), 0, endsOf(prompt));
  }

  /** A provider has read it, at this time in milliseconds since the epoch. */
  read(prompt: HeldPrompt, nowMs: number): void {
    this.#cache.store(this.#unitsOf(prompt), nowMs, endsOf(prompt));
  }

  #unitsOf({ client, model, tools, messages, ends, countTokens }: HeldPrompt): readonly PromptUnit[] {
    const answer = messages.findIndex(({ role }) => role === "assistant");
    const opening = answer < 0 ? messages.length : answer;
    // Where no mark ends what is cached, all that two texts begin with is shared.
    const whole = ends ? 0 : opening;
    return [
      { hash: `${client} ${model}`, tokens: 0 },
      ...promptUnits({ tools, messages: [] }, countTokens),
      ...messages.slice(0, whole).flatMap((message) => this.#piecesOf(message, countTokens)),
      ...promptUnits({ tools: [], messages: messages.slice(whole) }, countTokens),
    ];
  }

  /** A message as the pieces of its text that end within it, and the rest. */
  #piecesOf(message: Message, countTokens: CountTokens): readonly PromptUnit[] {
    const known = this.#pieces.get(message);
    if (known) return known;
    const { role, content } = message;
    const isText = typeof content === "string" || content?.every(({ type }) => type === "text");
    const text = isText ? contentText(content) : "";
    const pieces: PromptUnit[] = [];
    let left = countMessageTokens(message, countTokens);
    for (let end = PIECE_CHARS; end < text.length; end += PIECE_CHARS) {
      const piece = text.slice(end - PIECE_CHARS, end);
      const tokens = Math.min(left, countTokens(piece));
      pieces.push({ hash: `${role} ${hashText(piece)}`, tokens });
      left -= tokens;
    }
    pieces.push({ hash: hashBytes(message), tokens: left });
    this.#pieces.set(message, pieces);
    return pieces;
  }
}

function endsOf({ tools, ends }: HeldPrompt): readonly number[] | undefined {
  return ends?.map((end) => 1 + tools.length + end);
}
