/** Lines of a window; windows start at each {@linkcode STEP}th line. */
const WINDOW = 5;
const STEP = 4;

/** Shortest block that is found: of any as long, one window stands whole in it. */
const LEAST_LINES = WINDOW + STEP - 1;

/** So many places are tried at which a window stands, the newest first. */
const MOST_TRIED = 32;

/** Lines that stand at a place. */
interface Block {
  readonly place: number;
  /** The first line, and the one behind the last. */
  readonly from: number;
  readonly to: number;
}

/**
 * Where lines stand: an index over windows of several lines, found by their hashes (as rsync finds blocks: Tridgell,
 * Mackerras 1996). A line that is no part of what is shown is `undefined`. About 12 bytes a line.
 */
export class LineIndex {
  /** Hashes of all lines, those of a place together; 0 for one that isn't shown. */
  #hashes = new Uint32Array(1024);
  #length = 0;
  /** Of each place, where its lines start, and how many they are. */
  #starts = new Int32Array(2 * 256);
  /** Of each window, where it starts, at which place, and the one before it in the same slot. */
  #windows = new Int32Array(3 * 256);
  #count = 0;
  #slots = new Int32Array(512).fill(-1);

  /** Takes in the lines that stand at a place, in place of those that it knows of it. */
  add(place: number, lines: readonly (string | undefined)[]): void {
    const start = this.#length;
    this.#starts = grownTo(this.#starts, 2 * (place + 1));
    this.#starts.set([start, lines.length], 2 * place);
    this.#hashes = grownTo(this.#hashes, start + lines.length);
    for (const line of lines) this.#hashes[this.#length++] = line === undefined ? 0 : hashLine(line);
    for (let at = start; at + WINDOW <= this.#length; at += STEP) this.#addWindow(place, at);
  }

  /**
   * The longest block of known lines that equals lines of a text from a line on, the newest of several; its hashes are
   * equal, its bytes are the caller's to compare.
   *
   * @param at The first line of the text that may belong to it, and of a window in it.
   * @param isShown Whether the lines of a place may be meant.
   */
  find(
    hashes: Uint32Array,
    { at, from }: { readonly at: number; readonly from: number },
    isShown: (place: number) => boolean,
  ): { readonly from: number; readonly to: number; readonly source: Block } | undefined {
    const wanted = hashWindow(hashes, at);
    if (wanted === undefined) return undefined;
    let best: { readonly from: number; readonly to: number; readonly source: Block } | undefined;
    let tried = 0;
    let window = this.#slots[wanted & (this.#slots.length - 1)]!;
    for (; window >= 0 && tried < MOST_TRIED; window = this.#windows[3 * window + 2]!) {
      const line = this.#windows[3 * window]!;
      const place = this.#windows[3 * window + 1]!;
      const known = { start: this.#starts[2 * place]!, length: this.#starts[2 * place + 1]! };
      if (line < known.start || line >= known.start + known.length) continue;
      if (hashWindow(this.#hashes, line) !== wanted) continue;
      tried++;
      if (!isShown(place)) continue;
      const back = this.#same(hashes, at, line, { step: -1, most: Math.min(at - from, line - known.start) });
      const most = Math.min(hashes.length - at, known.start + known.length - line);
      const ahead = this.#same(hashes, at - 1, line - 1, { step: 1, most });
      if (back + ahead <= (best ? best.to - best.from : LEAST_LINES - 1)) continue;
      const first = line - known.start - back;
      best = {
        from: at - back,
        to: at + ahead,
        source: { place, from: first, to: first + back + ahead },
      };
    }
    return best;
  }

  /** How many lines in a row are the same, in one direction from, but not with, a line. */
  #same(
    hashes: Uint32Array,
    at: number,
    line: number,
    { step, most }: { readonly step: 1 | -1; readonly most: number },
  ): number {
    let same = 0;
    while (same < most) {
      const next = (same + 1) * step;
      const hash = hashes[at + next]!;
      if (hash === 0 || hash !== this.#hashes[line + next]) break;
      same++;
    }
    return same;
  }

  #addWindow(place: number, line: number): void {
    const hash = hashWindow(this.#hashes, line);
    if (hash === undefined) return;
    if (this.#count >= this.#slots.length) this.#spread();
    this.#windows = grownTo(this.#windows, 3 * (this.#count + 1));
    this.#link(this.#count++, { line, place, hash });
  }

  #link(
    window: number,
    { line, place, hash }: { readonly line: number; readonly place: number; readonly hash: number },
  ): void {
    const slot = hash & (this.#slots.length - 1);
    this.#windows.set([line, place, this.#slots[slot]!], 3 * window);
    this.#slots[slot] = window;
  }

  #spread(): void {
    this.#slots = new Int32Array(2 * this.#slots.length).fill(-1);
    for (let window = 0; window < this.#count; window++) {
      const line = this.#windows[3 * window]!;
      const place = this.#windows[3 * window + 1]!;
      this.#link(window, { line, place, hash: hashWindow(this.#hashes, line)! });
    }
  }
}

/** The hash of each line; 0 for one that isn't shown. */
export function hashLines(lines: readonly (string | undefined)[]): Uint32Array {
  return Uint32Array.from(lines, (line) => line === undefined ? 0 : hashLine(line));
}

/** FNV-1a (Fowler, Noll, Vo) over the code units; never 0. */
function hashLine(line: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < line.length; at++) hash = Math.imul(hash ^ line.charCodeAt(at), 0x01000193);
  return hash >>> 0 || 1;
}

/** The hash of a window of lines; nothing if it isn't whole. */
function hashWindow(hashes: Uint32Array, at: number): number | undefined {
  if (at + WINDOW > hashes.length) return undefined;
  let hash = 0;
  for (let line = at; line < at + WINDOW; line++) {
    const one = hashes[line]!;
    if (one === 0) return undefined;
    hash = Math.imul(hash ^ one, 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash & 0x7fffffff;
}

/** The array, or one with room for so many, and some more. */
function grownTo<A extends Int32Array | Uint32Array>(array: A, length: number): A;
function grownTo(array: Int32Array | Uint32Array, length: number): Int32Array | Uint32Array {
  if (length <= array.length) return array;
  const size = Math.ceil(1.25 * length);
  const more = array instanceof Int32Array ? new Int32Array(size) : new Uint32Array(size);
  more.set(array);
  return more;
}
