/**
 * Exact token counts, with the rank tables of [js-tiktoken](https://github.com/dqbd/tiktoken). Its own entry
 * point, so that only those who count exactly load a table; that takes some tens of milliseconds.
 *
 * A megabyte of any text, however hostile, is counted in well under a second.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { countMessageTokens } from "@tare/messages/internal";
 * import { loadTokenizer } from "@tare/tiktoken";
 *
 * const { count, encode } = await loadTokenizer({ model: "gpt-4o" });
 * assertEquals(encode("Hello, world!"), [13225, 11, 2375, 0]);
 * assertEquals(count("Hello, world!"), 4);
 * assertEquals(countMessageTokens({ role: "user", content: "Hello, world!" }, count), 4 + 4);
 * ```
 *
 * @module
 */
import { getEncodingNameForModel } from "js-tiktoken/lite";
import { bytePairEncoder, type EncodingData, loadOnce } from "./byte_pair_encoder.ts";
import type { CountTokens } from "@tare/messages";

/** Encodes text as a model does. Strings such as `<|endoftext|>` are ordinary text. */
export interface Tokenizer {
  /**
   * The encoding that it was loaded for. Current models of OpenAI use `o200k_base`, those from GPT-3.5 to GPT-4
   * `cl100k_base`.
   */
  readonly encoding: "o200k_base" | "cl100k_base" | "p50k_base" | "p50k_edit" | "r50k_base" | "gpt2";
  /** Whether the model's own encoding isn't known, so that the counts of this one stand for them. */
  readonly estimated: boolean;
  /** Number of tokens. The same function for every tokenizer of an encoding. */
  readonly count: CountTokens;
  /** The tokens themselves. */
  readonly encode: (text: string) => readonly number[];
}

/** Options of {@linkcode loadTokenizer}. */
export interface TokenizerOptions {
  /** The encoding by name; outranks `model`. Default: that of the model. */
  readonly encoding?: Tokenizer["encoding"];
  /** A model of OpenAI by name. An unknown one is counted as `o200k_base`, with `estimated`. */
  readonly model?: string;
}

/**
 * Loads a tokenizer; by default that of `o200k_base`. Each encoding is loaded once: whoever asks again gets the same
 * functions. A load that failed is tried again by the next call.
 *
 * The counts are exact, lone surrogates counting as U+FFFD, with one exception: in a text of more than 2^20 UTF-16
 * code units, a stretch of that length without a space after something else may count a token or two more.
 *
 * @throws {RangeError} (as a rejection) if there is no such encoding.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { loadTokenizer } from "@tare/tiktoken";
 *
 * const { count, estimated } = await loadTokenizer({ model: "gpt-4o" });
 * assertEquals([count("Hello, world!"), estimated], [4, false]);
 * ```
 */
export async function loadTokenizer(options: TokenizerOptions = {}): Promise<Tokenizer> {
  const { model } = options;
  const encoding = options.encoding ?? (model === undefined ? UNKNOWN : encodingOfModel(model));
  return { ...await load(encoding ?? UNKNOWN), estimated: encoding === undefined };
}

type Encoding = Tokenizer["encoding"];

/** What models are counted by whose own encoding isn't known. */
const UNKNOWN: Encoding = "o200k_base";

/**
 * The encoding of a model by name; nothing of a model that isn't known, such as any but OpenAI's.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { encodingOfModel } from "@tare/tiktoken";
 *
 * assertEquals(["gpt-4", "qwen3:8b"].map(encodingOfModel), ["cl100k_base", undefined]);
 * ```
 */
export function encodingOfModel(model: string): Tokenizer["encoding"] | undefined {
  try {
    return getEncodingNameForModel(model as Parameters<typeof getEncodingNameForModel>[0]);
  } catch {
    // Its only error: it doesn't know the model.
    return undefined;
  }
}

/** Literal specifiers: a published package cannot resolve computed ones. */
const RANKS: ReadonlyMap<Encoding, () => Promise<{ readonly default: EncodingData }>> = new Map([
  ["o200k_base", () => import("js-tiktoken/ranks/o200k_base")],
  ["cl100k_base", () => import("js-tiktoken/ranks/cl100k_base")],
  ["p50k_base", () => import("js-tiktoken/ranks/p50k_base")],
  ["p50k_edit", () => import("js-tiktoken/ranks/p50k_edit")],
  ["r50k_base", () => import("js-tiktoken/ranks/r50k_base")],
  ["gpt2", () => import("js-tiktoken/ranks/gpt2")],
]);

const load = loadOnce(async (encoding: Encoding): Promise<Omit<Tokenizer, "estimated">> => {
  const importRanks = RANKS.get(encoding);
  if (!importRanks) {
    throw new RangeError(
      `Cannot load encoding ${JSON.stringify(encoding)}: it is none of ${[...RANKS.keys()].join(", ")}`,
    );
  }
  return { encoding, ...bytePairEncoder((await importRanks()).default) };
});
