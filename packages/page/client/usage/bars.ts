import type { CallReport } from "@tare/conversation/report";

/** What the tokens of a call were, from the base of its bar to its top. */
export const PARTS = ["cached", "written", "fresh", "output"] as const;
/** What a token of a call was. */
export type Part = typeof PARTS[number];

/** Height of the bars, in pixels. */
export const HEIGHT = 200;

/** Room above the highest of them for half a line, in pixels. */
const HEAD = 2;

/** Room under the bars for the marks of rewrites, in pixels. */
export const FOOT = 14;

/** Where the bars of calls are. */
export interface Bars {
  readonly width: number;
  /** From a bar to the next, in pixels. */
  readonly pitch: number;
  /** Tokens at the top. */
  readonly most: number;
  /** An SVG path of each part, over all calls. */
  readonly paths: Readonly<Record<Part, string>>;
  /** An SVG path of what resending everything would have taken. */
  readonly resend: string;
  /** Which calls had a rewrite before them. */
  readonly rewritten: readonly number[];
}

/** Narrowest and widest bars, in pixels, with the space between them. */
const PITCH = { least: 5, most: 36 };

/** How many tokens of each kind a call took. */
export function partsOf(
  { cachedTokens, writtenTokens, newTokens, outputTokens }: CallReport,
): Readonly<Record<Part, number>> {
  return { cached: cachedTokens, written: writtenTokens, fresh: newTokens, output: outputTokens };
}

/** Lays out a bar for each call in so much room; if they don't fit they take more, to be scrolled. */
export function layOutBars(calls: readonly CallReport[], room: number): Bars {
  const pitch = Math.max(PITCH.least, Math.min(PITCH.most, room / Math.max(1, calls.length)));
  const most = calls.reduce(
    (most, { promptTokens, resend, outputTokens }) =>
      Math.max(most, Math.max(promptTokens, resend?.promptTokens ?? 0) + outputTokens),
    1,
  );
  const paths: Record<Part, string> = { cached: "", written: "", fresh: "", output: "" };
  let resend = "";
  const barWidth = pitch * 0.8;
  for (const [at, call] of calls.entries()) {
    const x = round(at * pitch + pitch * 0.1);
    let top = HEIGHT;
    const tokens = partsOf(call);
    for (const part of PARTS) {
      const height = tokens[part] / most * (HEIGHT - HEAD);
      if (height <= 0) continue;
      top -= height;
      paths[part] += `M${x} ${round(top)}h${round(barWidth)}v${round(height)}h${-round(barWidth)}z`;
    }
    if (!call.resend) continue;
    const y = round(HEIGHT - call.resend.promptTokens / most * (HEIGHT - HEAD));
    resend += `${resend === "" ? "M" : "L"}${round(at * pitch)} ${y}h${round(pitch)}`;
  }
  const rewritten = [...calls.entries()].filter(([, { rewrites }]) => rewrites.length > 0).map(([at]) => at);
  return { width: Math.max(room, pitch * calls.length), pitch, most, paths, resend, rewritten };
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}
