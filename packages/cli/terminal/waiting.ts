import type { SessionEvent } from "@tare/server";
import { oneLine } from "@tare/server/internal/format";
import { TranscriptReducer } from "@tare/server/internal/transcript";
import { cutTo, shownText } from "./shown_text.ts";

/** Returns the visible rows of a text at a width in columns. */
export type ShownRows = (columns: number) => readonly string[];

/** The last line of a terminal while a turn runs. */
interface WaitingLine {
  /** Writes text that stays, above the line. */
  readonly write: (text: string) => void;
  readonly follow: (event: SessionEvent) => void;
  /** Shows rows above the line until the next ones; undefined removes them. */
  readonly above: (rows: ShownRows | undefined) => void;
  /** Removes the line. */
  readonly close: () => void;
}

const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const ERASE = "\r\x1b[K";
/** Assumed width of a terminal that doesn't report it. */
const USUAL_COLUMNS = 80;
const MAX_CALL = 60;

/**
 * Shows a spinner, the seconds, and what the turn waits for: the model or a call.
 *
 * @param options.joins Whether the turn runs already, so that what it waits for is unknown. Default: false.
 * @param options.columns Current width: of a wider line only the last row could be removed. Default: unknown.
 * @param options.height Current rows: what has scrolled out can't be removed. Default: unlimited.
 * @param options.tick Calls back about ten times a second, until the returned function is called.
 */
export function waitingLine(
  {
    write,
    joins = false,
    columns = () => undefined,
    height = () => undefined,
    now = Date.now,
    tick = everyTenth,
  }: {
    readonly write: (text: string) => void;
    readonly joins?: boolean;
    readonly columns?: () => number | undefined;
    readonly height?: () => number | undefined;
    readonly now?: () => number;
    readonly tick?: (draw: () => void) => () => void;
  },
): WaitingLine {
  const transcript = new TranscriptReducer();
  let isOver = false;
  let since = now();
  let waitsFor: "the model" | "the turn" | undefined = joins ? "the turn" : undefined;
  let isShown = false;
  let rowsAbove: ShownRows | undefined;
  /** Rows on the screen. */
  let drawnAbove: readonly string[] = [];
  let lineOpen = false;
  let frame = 0;
  const draw = () => {
    const calls = isOver
      ? []
      : transcript.openCalls.filter(({ approval }) =>
        approval === undefined || approval !== "asked" && approval.decision === "allow"
      );
    const [call] = calls;
    const what = call
      // A call that began before the first event has no name.
      ? `${call.name === "" ? "a call" : oneLine(shownText(`${call.name} ${call.arguments}`), MAX_CALL)}${
        calls.length > 1 ? ` and ${calls.length - 1} more` : ""
      }`
      : waitsFor;
    if (what === undefined || lineOpen) return erase();
    const seconds = Math.floor((now() - since) / 1000);
    const drawn = `${FRAMES[frame++ % FRAMES.length]} ${seconds} s: ${what}`;
    // Some terminals begin the next row after the last column.
    const row = cutTo((columns() || Infinity) - 1, drawn);
    const room = Math.max(0, (height() || Infinity) - 2);
    const all = rowsAbove?.((columns() || USUAL_COLUMNS) - 1) ?? [];
    const above = all.slice(Math.max(0, all.length - room));
    const isSame = above.length === drawnAbove.length && above.every((one, at) => one === drawnAbove[at]);
    write(isSame ? ERASE + row : erased() + [...above, row].join("\n"));
    drawnAbove = above;
    isShown = true;
  };
  const erased = () => drawnAbove.length === 0 ? ERASE : `\r\x1b[${drawnAbove.length}A\x1b[J`;
  const erase = () => {
    if (isShown) write(erased());
    drawnAbove = [];
    isShown = false;
  };
  const stop = tick(() => {
    try {
      draw();
    } catch {
      // The terminal was closed; write() reports that.
      stop();
    }
  });
  return {
    write(text) {
      if (text === "") return;
      erase();
      write(text);
      lineOpen = !text.endsWith("\n");
    },
    follow(event) {
      transcript.apply(event);
      const { type } = event;
      if (type === "turn_start") isOver = false;
      if (type === "step_start") waitsFor = "the model";
      if (type === "assistant_message" || type === "turn_end") waitsFor = undefined;
      if (type === "turn_end") isOver = true;
      else if (type === "turn_start" || type === "step_start" || type === "assistant_message") since = now();
    },
    above: (rows) => void (rowsAbove = rows),
    close() {
      stop();
      erase();
    },
  };
}

function everyTenth(draw: () => void): () => void {
  const timer = setInterval(draw, 100);
  return () => clearInterval(timer);
}
