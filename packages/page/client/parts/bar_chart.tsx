import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Slider } from "./slider.tsx";
import { useWidth } from "./width.ts";

export interface Bar {
  /** Label below the bar. */
  readonly name: string;
  /** Values by series, from the bottom of the bar to the top. */
  readonly values: readonly number[];
  /** Height of a dashed line. Default: none. */
  readonly baseline?: number | undefined;
  /** Marks below the bar. Default: none. */
  readonly marks?: readonly (keyof typeof MARKS)[];
}

/** A CSS class, which sets the color, and a name. */
export type Series = readonly [color: string, name: string];

export interface BarChartProps {
  readonly label: string;
  readonly series: readonly Series[];
  readonly bars: readonly Bar[];
  readonly at: number;
  /** Whether that bar is highlighted. Default: yes. */
  readonly isSelected?: boolean;
  readonly choose: (at: number) => void;
  /** Description of the selected bar. */
  readonly text: string;
  readonly format: (value: number) => string;
  /** A horizontal line. Default: none. */
  readonly limit?: { readonly value: number; readonly name: string } | undefined;
  /** Names of the dashed line and of the marks. */
  readonly baseline?: string;
  readonly marks?: Readonly<Partial<Record<keyof typeof MARKS, string>>>;
}

/** Stacked bars with an axis, as a slider: arrow keys and clicks select a bar. A table contains its numbers. */
export function BarChart(
  { label, series, bars, at, isSelected = true, choose, text, format, limit, baseline, marks = {} }:
    BarChartProps,
): JSX.Element {
  const [box, room] = useWidth<HTMLDivElement>();
  const { width, pitch, ticks, yOf, paths, dashed, labels } = useMemo(
    () => layOut(bars, { room, count: series.length, limit: limit?.value ?? 0 }),
    [bars, room, series.length, limit?.value],
  );
  const height = HEIGHT + (bars.some(({ marks = [] }) => marks.length > 0) ? MARK_ROW : 0) + LABEL_ROW;
  return (
    <>
      <div class="chart">
        <svg class="axis" width={GUTTER} height={height} aria-hidden="true">
          {ticks.map((tick) => (
            <text key={tick} x={GUTTER - 8} y={yOf(tick) + 4} text-anchor="end">{format(tick)}</text>
          ))}
        </svg>
        <div class="plot" ref={box}>
          <Slider
            label={label}
            length={bars.length}
            at={at}
            choose={choose}
            text={text}
            find={(x) => Math.floor(x / pitch)}
          >
            <svg width={width} height={height} aria-hidden="true">
              {isSelected && <rect class="selected" x={at * pitch} y={0} width={pitch} height={height} />}
              {ticks.map((tick) => <path key={tick} class="grid" d={`M0 ${yOf(tick)}h${width}`} />)}
              {series.map(([color], index) => <path key={color} class={color} d={paths[index]} />)}
              <path class="baseline" d={dashed} />
              {limit && <path class="limit" d={`M0 ${yOf(limit.value)}h${width}`} />}
              {limit && <text class="limit" x={2} y={yOf(limit.value) - 4}>{limit.name}</text>}
              {bars.flatMap(({ marks = [] }, at) =>
                marks.map((mark, index) => (
                  <path
                    key={`${at} ${mark}`}
                    class={mark}
                    d={`M${round((at + 0.5) * pitch)} ${HEIGHT + 3 + index * 10}${MARKS[mark]}`}
                  />
                ))
              )}
              {labels.map((at) => (
                <text
                  key={at}
                  x={Math.max(LABEL / 3, Math.min(width - LABEL / 3, round((at + 0.5) * pitch)))}
                  y={height - 3}
                  text-anchor="middle"
                >
                  {bars[at]!.name}
                </text>
              ))}
            </svg>
          </Slider>
        </div>
      </div>
      <ul class="legend">
        {series.map(([color, name]) => <li key={color} class={color}>{name}</li>)}
        {baseline !== undefined && dashed !== "" && <li class="baseline">{baseline}</li>}
        {Object.entries(marks).map(([mark, name]) =>
          bars.some(({ marks = [] }) => marks.some((one) => one === mark)) && (
            <li key={mark} class={mark}>{name}</li>
          )
        )}
      </ul>
    </>
  );
}

/** Shapes of marks, from their top. */
const MARKS = { rewritten: "l4.5 8h-9z", missed: "a4 4 0 1 1-.01 0z" } as const;

const GUTTER = 64;
const HEIGHT = 190;
const MARK_ROW = 24;
const LABEL_ROW = 18;

/** Space above the bars, for the name of the limit, in pixels. */
const HEAD = 16;

/** Bar width with gap, in pixels. */
const PITCH = { least: 6, most: 72 };

/** Space of a label below the bars, in pixels. */
const LABEL = 66;

function layOut(
  bars: readonly Bar[],
  { room, count, limit }: { readonly room: number; readonly count: number; readonly limit: number },
) {
  const pitch = Math.max(PITCH.least, Math.min(PITCH.most, room / Math.max(1, bars.length)));
  const totals = bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const peak = Math.max(...totals, ...bars.map(({ baseline = 0 }) => baseline), Number.MIN_VALUE);
  // A limit far above the bars would flatten them.
  const top = limit < 4 * peak ? Math.max(peak, limit) : peak * 1.1;
  const yOf = (value: number) => round(HEIGHT - value / top * (HEIGHT - HEAD));
  const paths = Array.from({ length: count }, () => "");
  const barWidth = round(Math.min(36, pitch * (pitch < 10 ? 0.8 : 0.68)));
  let dashed = "";
  for (const [at, { values, baseline }] of bars.entries()) {
    const x = round(at * pitch + (pitch - barWidth) / 2);
    let sum = 0;
    for (const [index, value] of values.entries()) {
      if (value <= 0) continue;
      const bottom = yOf(sum);
      sum += value;
      // A gap separates the parts of a bar.
      const height = round(Math.max(0.5, bottom - yOf(sum) - (sum > value ? 1 : 0)));
      paths[index] += `M${x} ${yOf(sum)}h${barWidth}v${height}h${-barWidth}z`;
    }
    if (baseline) dashed += `M${round(at * pitch + 1)} ${yOf(baseline)}h${round(pitch - 2)}`;
  }
  const every = Math.max(1, Math.ceil(LABEL / pitch));
  const labels = [...bars.keys()].filter((at) => (bars.length - 1 - at) % every === 0);
  return {
    ...{ pitch, yOf, paths, dashed, labels },
    width: Math.max(room, Math.ceil(pitch * bars.length)),
    ticks: ticksTo(top),
  };
}

/** Returns up to five round values from 0. */
function ticksTo(top: number): readonly number[] {
  const rough = top / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((times) => times * power).find((step) => step >= rough * 0.999) ??
    rough;
  return Array.from(
    { length: Math.floor(top / step * 1.001) + 1 },
    (_, at) => Number((at * step).toPrecision(6)),
  );
}

function round(pixels: number): number {
  return Math.round(pixels * 10) / 10;
}
