import { BytePairMerger } from "./byte_pair_merger.ts";
import { RankTable } from "./rank_table.ts";

/** An encoding as js-tiktoken ships it: the packed ranks, and the pattern that cuts text into pieces. */
export interface EncodingData {
  readonly bpe_ranks: string;
  readonly pat_str: string;
}

/** Encodes text, counts its tokens. */
export interface BytePairEncoder {
  readonly count: (text: string) => number;
  readonly encode: (text: string) => readonly number[];
}

/**
 * The pattern is matched in windows of this many UTF-16 code units: a single match over some four million makes
 * V8's regular expressions run out of stack.
 */
const WINDOW_LENGTH = 2 ** 20;

/** UTF-8 bytes of one UTF-16 code unit, at most. */
const MAX_UNIT_BYTES = 3;

/** Pieces up to this many code units are encoded in a buffer that is kept. */
const KEPT_LENGTH = 4096;

/** So many pieces are remembered with the number of their tokens, each of at most so many code units. */
const KNOWN = { pieces: 8192, length: 64 };

/**
 * Makes an encoder. Strings that look like special tokens are ordinary text to it, and lone surrogates are
 * encoded as U+FFFD.
 *
 * It is exact but for one case: in a text longer than 2^20 UTF-16 code units, a stretch of that length without a
 * space after something that isn't white space is cut where it stands, which may add a token or two.
 */
export function bytePairEncoder({ bpe_ranks, pat_str }: EncodingData): BytePairEncoder {
  const table = new RankTable(bpe_ranks);
  const merger = new BytePairMerger(table);
  const pattern = new RegExp(pat_str, "uy");
  const kept = makeBuffers(KEPT_LENGTH);
  // Names come again and again, and to merge one takes ten times as long as to look it up.
  const known = new Map<string, number>();

  /** Encodes a piece; returns the number of its tokens and hands the tokens themselves to the sink. */
  const encodePiece = (piece: string, sink: number[] | undefined): number => {
    const { bytes, tokens } = piece.length <= KEPT_LENGTH ? kept : makeBuffers(piece.length);
    const length = utf8(piece, bytes);
    const rank = table.rank(bytes, length);
    if (rank >= 0) {
      sink?.push(rank);
      return 1;
    }
    if (!sink && piece.length <= KNOWN.length) {
      const count = known.get(piece);
      if (count !== undefined) return count;
    }
    const count = merger.merge(bytes, length, tokens);
    if (sink) { for (const token of tokens.subarray(0, count)) sink.push(token); }
    // Of one ASCII piece's own: a slice would hold on to the text that it was cut from.
    else if (length === piece.length && length <= KNOWN.length) {
      if (known.size === KNOWN.pieces) known.clear();
      known.set(String.fromCharCode(...bytes.subarray(0, length)), count);
    }
    return count;
  };

  const encodeText = (text: string, sink?: number[]): number => {
    let count = 0;
    for (const window of windows(text)) {
      let start = 0;
      pattern.lastIndex = 0;
      while (start < window.length && pattern.test(window)) {
        count += encodePiece(window.slice(start, pattern.lastIndex), sink);
        start = pattern.lastIndex;
      }
    }
    return count;
  };

  return {
    count: (text) => encodeText(text),
    encode: (text) => {
      const tokens: number[] = [];
      encodeText(text, tokens);
      return tokens;
    },
  };
}

function makeBuffers(length: number) {
  return { bytes: new Uint8Array(MAX_UNIT_BYTES * length), tokens: new Int32Array(MAX_UNIT_BYTES * length) };
}

const textEncoder = new TextEncoder();

/** Writes a text as UTF-8; returns the number of bytes. */
function utf8(text: string, bytes: Uint8Array): number {
  // Most pieces are a few ASCII letters: for these the call of encodeInto costs more than the copying.
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return textEncoder.encodeInto(text, bytes).written;
    bytes[i] = code;
  }
  return text.length;
}

function* windows(text: string): Generator<string> {
  let start = 0;
  while (text.length - start > WINDOW_LENGTH) {
    const end = windowEnd(text, start);
    yield text.slice(start, end);
    start = end;
  }
  yield text.slice(start);
}

/** Where to end a window. In no encoding does a piece contain a space after something that isn't white space. */
function windowEnd(text: string, start: number): number {
  const limit = start + WINDOW_LENGTH;
  for (let end = limit; end > start; end--) {
    if (text[end] === " " && /\S/.test(text[end - 1] ?? "")) return end;
  }
  return /[\uD800-\uDBFF]/.test(text[limit - 1] ?? "") ? limit - 1 : limit;
}
