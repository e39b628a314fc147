const WIDTH = 720;
const HEIGHT = 440;
const LEFT = 60;
const BOTTOM = 50;
const MARGIN = 24;

/** One direction of a {@linkcode chart}, from 0 to `most`. */
export interface Axis {
  readonly label: string;
  readonly most: number;
  /** Where values are written. Default: about five round ones. */
  readonly ticks?: readonly number[];
  readonly format: (value: number) => string;
}

/** A point of a {@linkcode chart}. */
export interface Point {
  readonly x: number;
  readonly y: number;
  /** Written beside it. */
  readonly label: string;
  /** Whether it is in the colour of what the chart is about. Default: no. */
  readonly ours?: boolean;
}

/** Points between two axes, as an SVG. */
export function chart(
  { title, x: across, y: up, points }: {
    readonly title: string;
    readonly x: Axis;
    readonly y: Axis;
    readonly points: readonly Point[];
  },
): string {
  const x = (value: number) => LEFT + (WIDTH - LEFT - 5 * MARGIN) * value / across.most;
  const y = (value: number) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - MARGIN) * value / up.most;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    text(LEFT, 16, title),
    ...ticksOf(across).map((value) => text(x(value), HEIGHT - BOTTOM + 16, across.format(value), "middle")),
    ...ticksOf(up).flatMap((value) => [
      `<path d="M${LEFT} ${round(y(value))}H${WIDTH - MARGIN}" stroke="#ddd"/>`,
      text(LEFT - 6, y(value) + 4, up.format(value), "end"),
    ]),
    text((WIDTH + LEFT) / 2, HEIGHT - 12, across.label, "middle"),
    text(LEFT - 44, MARGIN + 8, up.label),
    ...points.flatMap((point) => [
      `<circle cx="${round(x(point.x))}" cy="${round(y(point.y))}" r="4" fill="${
        point.ours ? "#c2410c" : "#334155"
      }"/>`,
      text(x(point.x) + 7, y(point.y) + 4, point.label),
    ]),
    "</svg>",
    "",
  ].join("\n");
}

/** Round values from 0 up, about five of them. */
function ticksOf({ most, ticks }: Axis): readonly number[] {
  if (ticks) return ticks;
  const power = 10 ** Math.floor(Math.log10(most / 6));
  const step = [1, 2, 5].map((digit) => digit * power).find((step) => most / step <= 6) ?? 10 * power;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function text(x: number, y: number, content: string, anchor = "start"): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

/** A text as it stands in SVG and HTML. */
export function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
