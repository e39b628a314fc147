const BAR_WIDTH = 40;

/** Time after which the remaining time can be estimated, in milliseconds. */
const ESTIMATE_AFTER_MS = 2_000;

const SECOND_MS = 1_000;

function draw(text: string): void {
  if (Deno.stderr.isTerminal()) Deno.stderr.writeSync(new TextEncoder().encode(text));
}

const CLEAR = "\r\x1b[K";

/** A progress bar with the estimated remaining time on standard error, if that is a terminal. */
export class ProgressBar {
  readonly #total: number;
  readonly #startMs = performance.now();
  #done = 0;
  #drawn = "";

  constructor(total: number) {
    this.#total = total;
  }

  readonly step = (by = 1): void => {
    this.#done += by;
    const share = Math.min(1, this.#done / this.#total);
    const filled = Math.round(BAR_WIDTH * share);
    const bar = `[${"#".repeat(filled)}${" ".repeat(BAR_WIDTH - filled)}] ${Math.floor(100 * share)} %`;
    const text = `${CLEAR}${bar}${remaining(share, performance.now() - this.#startMs)}`;
    if (text !== this.#drawn) draw(this.#drawn = text);
  };

  clear(): void {
    draw(CLEAR);
  }
}

/** Returns the estimated remaining time; empty at the beginning and the end. */
export function remaining(share: number, elapsedMs: number): string {
  if (share <= 0 || share >= 1 || elapsedMs < ESTIMATE_AFTER_MS) return "";
  const seconds = Math.ceil(elapsedMs * (1 - share) / share / SECOND_MS);
  return seconds < 60 ? `, about ${seconds} s left` : `, about ${Math.round(seconds / 60)} min left`;
}

/** Runs work of unknown length, and shows its name with the elapsed seconds on standard error, if that is a terminal. */
export async function withElapsed<T>(name: string, work: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  const show = () => {
    const seconds = Math.floor((performance.now() - startMs) / SECOND_MS);
    draw(`${CLEAR}${name} …${seconds > 0 ? ` ${seconds} s` : ""}`);
  };
  show();
  const timer = setInterval(show, SECOND_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    draw(CLEAR);
  }
}
