import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import type { Tokenizer } from "@tare/tiktoken";
import type { PromptUnit } from "@tare/planner/internal/parts";

export type Encoder = Pick<Tokenizer, "encode">;

export interface RunUnit extends PromptUnit {
  readonly hash: number;
}

/** Tokens per unit: the block sizes of all profiles are multiples of it, or 1. */
const UNIT_TOKENS = 16;

/** Returns a tool definition's units. Their total is that of `countToolTokens`. */
export function toolUnits(tool: ToolDefinition, tokenizer: Encoder): RunUnit[] {
  const texts = new EncodedTexts(tokenizer);
  countToolTokens(tool, texts.count);
  return texts.units();
}

/** Returns a message's units: its role and media, then runs of at most 16 token ids, as `countMessageTokens` counts. */
export function messageUnits(message: Message, tokenizer: Encoder): RunUnit[] {
  const texts = new EncodedTexts(tokenizer);
  // Encoding in the counter keeps both counts equal.
  const tokens = countMessageTokens(message, texts.count);
  const hash = new RunningHash();
  hash.addText(message.role + notText(message));
  return [{ hash: hash.value(), tokens: tokens - texts.tokens }, ...texts.units()];
}

function notText({ content }: Message): string {
  if (!Array.isArray(content)) return "";
  return JSON.stringify(content.filter((part) => part.type !== "text"));
}

class EncodedTexts {
  readonly #tokenizer: Encoder;
  readonly #ids: number[] = [];
  #texts = 0;

  constructor(tokenizer: Encoder) {
    this.#tokenizer = tokenizer;
  }

  get tokens(): number {
    return this.#ids.length;
  }

  readonly count: CountTokens = (text) => {
    const ids = this.#tokenizer.encode(text);
    // A token's text is part of its identity: "ab" and "a", "b" are different prompts.
    const salt = this.#texts++ * 0x100000;
    for (let i = 0; i < ids.length; i++) this.#ids.push(salt + (ids[i] ?? 0));
    return ids.length;
  };

  units(): RunUnit[] {
    const units: RunUnit[] = [];
    for (let start = 0; start < this.#ids.length; start += UNIT_TOKENS) {
      const end = Math.min(start + UNIT_TOKENS, this.#ids.length);
      const hash = new RunningHash();
      for (let i = start; i < end; i++) hash.add(this.#ids[i] ?? 0);
      units.push({ hash: hash.value(), tokens: end - start });
    }
    return units;
  }
}

/** A non-cryptographic hash of integers: two 32-bit multiplicative hashes, truncated to 53 bits. */
export class RunningHash {
  #a = 0x9e3779b1;
  #b = 0x85ebca6b;

  add(number: number): void {
    this.#a = Math.imul(this.#a ^ number, 0x01000193);
    this.#b = Math.imul(this.#b ^ number, 0x5bd1e995);
    this.#b ^= this.#b >>> 15;
  }

  addText(text: string): void {
    for (let i = 0; i < text.length; i++) this.add(text.charCodeAt(i));
  }

  /** Returns the hash, from 0 to 2⁵³ − 1. */
  value(): number {
    return (this.#a >>> 0) * 0x200000 + (this.#b >>> 11);
  }
}
