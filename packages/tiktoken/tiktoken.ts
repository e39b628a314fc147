/**
 * Exact token counts with the rank tables of [js-tiktoken](https://github.com/dqbd/tiktoken). Loading a table takes some
 * tens of milliseconds; a megabyte of any text is counted in well under a second.
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

/** A tokenizer. Strings such as `<|endoftext|>` are ordinary text. */
export interface Tokenizer {
  /** Encoding. OpenAI's current models use `o200k_base`, those from GPT-3.5 to GPT-4 `cl100k_base`. */
  readonly encoding: "o200k_base" | "cl100k_base" | "p50k_base" | "p50k_edit" | "r50k_base" | "gpt2";
  /** Whether the model's encoding is unknown, so that counts are estimates. */
  readonly estimated: boolean;
  /** Returns the number of tokens; the same function for all tokenizers of an encoding. */
  readonly count: CountTokens;
  /** Returns the tokens. */
  readonly encode: (text: string) => readonly number[];
}

/** Options of {@linkcode loadTokenizer}. */
export interface TokenizerOptions {
  /** Encoding; overrides `model`. Default: the model's. */
  readonly encoding?: Tokenizer["encoding"];
  /** OpenAI model name. An unknown model uses `o200k_base`, with `estimated`. Default: `o200k_base`. */
  readonly model?: string;
}

/**
 * Loads a tokenizer. Each encoding is loaded once; a failed load is retried by the next call.
 *
 * Counts are exact, with lone surrogates as U+FFFD; only a stretch of 2^20 UTF-16 code units without a space after other
 * text may count a token or two more.
 *
 * @throws {RangeError} (as a rejection) if the encoding is unknown.
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

const UNKNOWN: Encoding = "o200k_base";

/**
 * Returns a model's encoding; undefined for unknown models, such as all but OpenAI's.
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
    // Its only error is an unknown model.
    return undefined;
  }
}

/** Loaders with literal specifiers, because a published package can't resolve computed ones. */
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
      `Cannot load encoding ${JSON.stringify(encoding)}: it is unknown. Use ${[...RANKS.keys()].join(", ")}.`,
    );
  }
  return { encoding, ...bytePairEncoder((await importRanks()).default) };
});
