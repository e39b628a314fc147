import type { SessionEvent } from "@tare/server";
import { oneLine } from "@tare/server/internal/format";
import { type EntryOf, TranscriptReducer } from "@tare/server/internal/transcript";
import { callInShort } from "../call_title.ts";
import { cutTo, printableText } from "./printable_text.ts";

export type RenderRows = (columns: number) => readonly string[];

interface WaitingLine {
  /** Writes permanent text above the line. */
  readonly write: (text: string) => void;
  readonly follow: (event: SessionEvent) => void;
  /** Replaces the temporary rows above the line; undefined removes them. */
  readonly above: (rows: RenderRows | undefined) => void;
  readonly close: () => void;
}

const FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const ERASE = "\r\x1b[K";
const USUAL_COLUMNS = 80;
const MAX_CALL = 60;

/**
 * Shows a spinner, the elapsed seconds, and what the turn waits for: the model or a call.
 *
 * @param options.joins Whether the turn is already running. Default: false.
 * @param options.columns Returns the current width, which limits the line to one row. Default: unknown.
 * @param options.height Returns the current number of rows: scrolled rows can't be erased. Default: unlimited.
 * @param options.tick Calls back until the returned function is called. Default: ten times a second.
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
  let waitsFor: "Thinking" | "Working" | undefined = joins ? "Working" : undefined;
  let step = 0;
  /** Steps before the turn's last approval. */
  let stepsBefore = 0;
  let isVisible = false;
  let rowsAbove: RenderRows | undefined;
  let drawnAbove: readonly string[] = [];
  let lineOpen = false;
  let frame = 0;
  const draw = () => {
    const calls = isOver
      ? []
      : transcript.openCalls.filter(({ approval }) =>
        approval === undefined || approval !== "requested" && approval.decision === "allow"
      );
    const [call] = calls;
    const what = call
      // Calls before the first event have no name.
      ? oneLine(printableText(nameOf(call)), MAX_CALL) +
        (calls.length > 1 ? ` and ${calls.length - 1} more` : "")
      : waitsFor;
    if (what === undefined || lineOpen) return erase();
    const seconds = Math.floor((now() - since) / 1000);
    const steps = step > 1 ? ` · step ${step}` : "";
    const drawn = `${FRAMES[frame++ % FRAMES.length]} ${seconds} s · ${what}${steps}`;
    // Some terminals wrap once the last column is filled.
    const row = cutTo((columns() || Infinity) - 1, drawn);
    const room = Math.max(0, (height() || Infinity) - 2);
    const all = rowsAbove?.((columns() || USUAL_COLUMNS) - 1) ?? [];
    const above = all.slice(Math.max(0, all.length - room));
    const isSame = above.length === drawnAbove.length && above.every((one, at) => one === drawnAbove[at]);
    write(isSame ? ERASE + row : erased() + [...above, row].join("\n"));
    drawnAbove = above;
    isVisible = true;
  };
  const erased = () => drawnAbove.length === 0 ? ERASE : `\r\x1b[${drawnAbove.length}A\x1b[J`;
  const erase = () => {
    if (isVisible) write(erased());
    drawnAbove = [];
    isVisible = false;
  };
  const stop = tick(() => {
    try {
      draw();
    } catch {
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
      if (type === "turn_start" && event.input !== undefined) step = stepsBefore = 0;
      if (type === "step_start") {
        waitsFor = "Thinking";
        step = stepsBefore + event.step;
      }
      if (type === "turn_end" && event.reason === "approval") stepsBefore = step;
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

/** Calls before the first event have no name. */
function nameOf({ name, arguments: args }: EntryOf<"call">): string {
  return name === "" ? "Working" : callInShort({ name, args });
}

function everyTenth(draw: () => void): () => void {
  const timer = setInterval(draw, 100);
  return () => clearInterval(timer);
}
