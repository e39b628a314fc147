import { contentText, type Message, type ToolCall } from "@tare/messages";
import { hashText, meantCall } from "@tare/messages/internal";
import type { ToolTraits } from "@tare/prune";
import { readCall } from "../tools_of_agents.ts";

/** Least share of a result's text that must have been evicted. */
const EVICTED_SHARE = 0.8;

/** Most results of the same file that are compared, the newest first. */
const MAX_COMPARED = 20;

/** Original and visible form of an earlier result. */
export interface EarlierResult {
  readonly original: Message;
  /** Absent: it was evicted with its turn. */
  readonly visible: Message | undefined;
}

/** Finds results of a history that only return evicted content again. */
export class Rereads {
  readonly #tools: ToolTraits | undefined;
  #positions = new Map<string, number[]>();

  constructor(tools: ToolTraits | undefined, from: Rereads | undefined) {
    this.#tools = tools;
    if (!from) return;
    for (const [key, positions] of from.#positions) this.#positions.set(key, [...positions]);
  }

  cutBack(length: number): void {
    for (const positions of this.#positions.values()) {
      while ((positions.at(-1) ?? -1) >= length) positions.pop();
    }
  }

  /** Adds the result at `at`. Returns whether it repeats evicted content, for results found by `find`. */
  add(result: Message, { call, at, find }: {
    readonly call: ToolCall;
    readonly at: number;
    readonly find: (at: number) => EarlierResult;
  }): boolean {
    const keys = this.#keysOf(call);
    const earlier = new Set<number>();
    for (const key of keys) {
      const positions = this.#positions.get(key) ?? [];
      for (const position of positions.slice(-MAX_COMPARED)) earlier.add(position);
      positions.push(at);
      this.#positions.set(key, positions);
    }
    const found = [...earlier].map(find);
    if (found.every(({ original, visible }) => original === visible)) return false;
    const evicted = new Set<number>();
    for (const { original } of found) for (const { hash } of linesOf(original)) evicted.add(hash);
    for (const { visible } of found) {
      if (visible) { for (const { hash } of linesOf(visible)) evicted.delete(hash); }
    }
    let [chars, repeated] = [0, 0];
    for (const line of linesOf(result)) {
      chars += line.chars;
      if (evicted.has(line.hash)) repeated += line.chars;
    }
    return chars > 0 && repeated >= EVICTED_SHARE * chars;
  }

  /** Returns the files that a call reads, or what it finds or lists. */
  #keysOf(call: ToolCall): readonly string[] {
    const { reads, files, use, texts } = readCall(call, this.#tools);
    if (reads) return files;
    return use === "finds" || use === "lists" ? [[meantCall(call).name, ...texts].join("\n")] : [];
  }
}

interface Line {
  readonly hash: number;
  readonly chars: number;
}

const known = new WeakMap<Message, readonly Line[]>();

/** Returns the lines of a result without line numbers and outer white space. */
function linesOf(message: Message): readonly Line[] {
  let lines = known.get(message);
  if (!lines) {
    lines = contentText(message.content).split("\n").flatMap((line) => {
      const text = line.replace(/^\s*\d+(?:[:|→\t-]|\s{2})/, "").trim();
      return text === "" ? [] : [{ hash: hashText(text), chars: text.length }];
    });
    known.set(message, lines);
  }
  return lines;
}
