import type { PromptBlock } from "@tare/conversation/report";

/** Height of a row of blocks and of the space under it, in pixels. */
export const ROW = { height: 30, gap: 6 };

/** Colours of blocks, by who says them. */
export const KINDS = ["tools", "instructions", "user", "assistant", "result"] as const;
/** Whose a block is. */
export type Kind = typeof KINDS[number];

/** A piece of a block: blocks go on in the next row. */
interface Piece {
  readonly at: number;
  readonly row: number;
  readonly x: number;
  readonly width: number;
}

/** Where the blocks of a prompt are. */
export interface Strip {
  readonly rows: number;
  /** SVG paths of what the model sees, by kind. */
  readonly seen: Readonly<Record<Kind, string>>;
  /** An SVG path of what left: the rest of each block. */
  readonly gone: string;
  /** The SVG path of one block, with what left of it. */
  readonly outline: (at: number) => string;
  /** Which block stands at a place. */
  readonly find: (x: number, y: number) => number | undefined;
}

/** Blocks in a row, about. */
const A_ROW = 60;

/** Most rows. */
const MOST_ROWS = 14;

/** Whose a block is. */
export function kindOf({ kind, role }: Pick<PromptBlock, "kind" | "role">): Kind {
  if (kind === "tool") return "tools";
  if (role === "system" || role === "developer") return "instructions";
  if (role === "tool" || role === "function") return "result";
  return role === "assistant" ? "assistant" : "user";
}

/** Lays blocks out to scale, row by row: of each what the model sees, then what left of it. */
export function layOutStrip(blocks: readonly PromptBlock[], width: number): Strip {
  const rows = Math.max(1, Math.min(MOST_ROWS, Math.ceil(blocks.length / A_ROW)));
  const sizes = blocks.map(({ tokens, originalTokens }) => Math.max(tokens, originalTokens));
  const total = Math.max(1, sizes.reduce((sum, size) => sum + size, 0));
  const scale = width * rows / total;
  const seen: Record<Kind, string> = { tools: "", instructions: "", user: "", assistant: "", result: "" };
  let gone = "";
  const pieces: Piece[] = [];
  const byRow: Piece[][] = Array.from({ length: rows }, () => []);
  let from = 0;
  for (const [at, block] of blocks.entries()) {
    const size = sizes[at] ?? 0;
    const split = from + block.tokens;
    for (const piece of cut({ from: from * scale, to: (from + size) * scale, width, rows })) {
      pieces.push({ at, ...piece });
      byRow[piece.row]?.push({ at, ...piece });
    }
    for (const piece of cut({ from: from * scale, to: split * scale, width, rows })) {
      seen[kindOf(block)] += box(piece);
    }
    for (const piece of cut({ from: split * scale, to: (from + size) * scale, width, rows })) {
      gone += box(piece);
    }
    from += size;
  }
  return {
    rows,
    seen,
    gone,
    outline: (at) => pieces.filter((piece) => piece.at === at).map(box).join(""),
    find(x, y) {
      const row = Math.max(0, Math.min(rows - 1, Math.floor(y / (ROW.height + ROW.gap))));
      // Of one that is too narrow to hit, its neighbour is found, and the keys lead there.
      return byRow[row]?.findLast((piece) => piece.x <= x)?.at;
    },
  };
}

/** A stretch of the endless row, cut where rows end. */
function cut(
  { from, to, width, rows }: {
    readonly from: number;
    readonly to: number;
    readonly width: number;
    readonly rows: number;
  },
): Omit<Piece, "at">[] {
  const pieces: Omit<Piece, "at">[] = [];
  if (width <= 0) return pieces;
  for (let at = from; to - at > 1e-6;) {
    const row = Math.min(rows - 1, Math.floor(at / width + 1e-9));
    const end = row === rows - 1 ? to : Math.min(to, (row + 1) * width);
    pieces.push({ row, x: at - row * width, width: end - at });
    at = end;
  }
  return pieces;
}

/** A hair's breadth stands between blocks, unless they are as thin. */
function box({ row, x, width }: Omit<Piece, "at">): string {
  const shown = width > 3 ? width - 1 : width;
  const y = row * (ROW.height + ROW.gap);
  return `M${x.toFixed(2)} ${y}h${shown.toFixed(2)}v${ROW.height}h${(-shown).toFixed(2)}z`;
}
