import type { Message, ToolDefinition } from "@tare/messages";
import { LRUCache } from "lru-cache";
import { type Encoder, messageUnits, RunningHash, type RunUnit, toolUnits } from "./prompt_units.ts";

export interface ReadPrompt {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  /** Units of the tools, then of the messages in order. */
  readonly units: readonly RunUnit[];
  /** Number of units up to the end of each tool, then of each message. */
  readonly ends: readonly number[];
  readonly tokens: number;
  readonly digest: string;
}

/** Size of a reader's cache of JSON texts in UTF-16 code units: about 2 million tokens. */
const MAX_REMEMBERED_CHARS = 8_000_000;

/** Returns a reader that tokenizes each message or tool once, by its JSON text, and counts as `countRequestTokens`. */
export function promptReader(
  tokenizer: Encoder,
): (request: Pick<ReadPrompt, "messages" | "tools">) => ReadPrompt {
  const readTool = remembering((tool: ToolDefinition) => toolUnits(tool, tokenizer));
  const readMessage = remembering((message: Message) => messageUnits(message, tokenizer));
  return (request) => {
    const tools = request.tools.map(readTool);
    const messages = request.messages.map(readMessage);
    const units: RunUnit[] = [];
    const hash = new RunningHash();
    const ends: number[] = [];
    let tokens = 0;
    for (const piece of [...tools, ...messages]) {
      for (const unit of piece.units) {
        units.push(unit);
        tokens += unit.tokens;
        hash.add(unit.hash);
      }
      ends.push(units.length);
    }
    return {
      messages: messages.map((piece) => piece.value),
      tools: tools.map((piece) => piece.value),
      units,
      ends,
      tokens,
      digest: hash.value().toString(36),
    };
  };
}

interface Piece<T> {
  readonly value: T;
  readonly units: readonly RunUnit[];
}

function remembering<T>(toUnits: (value: T) => readonly RunUnit[]): (value: T) => Piece<T> {
  const known = new LRUCache<string, Piece<T>>({
    maxSize: MAX_REMEMBERED_CHARS,
    sizeCalculation: (_, text) => text.length,
  });
  return (value) => {
    const text = JSON.stringify(value);
    let piece = known.get(text);
    if (!piece) known.set(text, piece = { value, units: toUnits(value) });
    return piece;
  };
}
