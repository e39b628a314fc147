import type { LoopEvent } from "@tare/loop";

/** Progress bars, one a line. */
export interface ProgressBars {
  /** Moves a bar by what happens in its session. */
  readonly follow: (bar: number, event: LoopEvent) => void;
  /** Draws them a last time. */
  readonly close: () => void;
}

const WIDTH = 40;
/** Steps that a turn may take, roughly: its bar never quite reaches the next turn before it ends. */
const STEPS = 12;
const EVERY_MS = 80;

/**
 * Shows how far sessions are and what their prompts came to, one bar a session.
 *
 * @param options.total Turns of each session.
 * @param options.write Writes to the terminal. Default: nothing is shown.
 */
export function progressBars(
  names: readonly string[],
  { total, write = () => {}, now = Date.now }: {
    readonly total: number;
    readonly write?: (text: string) => void;
    readonly now?: () => number;
  },
): ProgressBars {
  const bars = names.map((name) => ({ name, turns: 0, step: 0, calls: 0, promptTokens: 0 }));
  const longest = Math.max(...names.map(({ length }) => length));
  let drawnAt: number | undefined;
  const draw = () => {
    const lines = bars.map(({ name, turns, step, calls, promptTokens }) => {
      const done = Math.floor(WIDTH * Math.min(1, (turns + Math.min(step / STEPS, 0.9)) / total));
      const bar = "█".repeat(done) + "░".repeat(WIDTH - done);
      const told = `${calls} calls, ${promptTokens.toLocaleString("en")} tokens`;
      return `\x1b[K${name.padEnd(longest)}  ${bar}  ${told}\n`;
    });
    write((drawnAt === undefined ? "" : `\x1b[${bars.length}A`) + lines.join(""));
    drawnAt = now();
  };
  return {
    follow(at, event) {
      const bar = bars[at]!;
      if (event.type === "step_start") bar.step = event.step;
      else if (event.type === "step_end") {
        bar.calls += 1;
        bar.promptTokens += event.usage.promptTokens;
      } else if (event.type === "turn_end") {
        bar.turns += 1;
        bar.step = 0;
      } else return;
      if (drawnAt === undefined || now() - drawnAt >= EVERY_MS) draw();
    },
    close() {
      draw();
      write("\n");
    },
  };
}
