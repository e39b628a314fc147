const WIDTH = 40;

/** A progress bar on standard error, if that is a terminal; otherwise nothing is drawn. */
export class ProgressBar {
  readonly #total: number;
  readonly #visible = Deno.stderr.isTerminal();
  #done = 0;

  constructor(total: number) {
    this.#total = total;
  }

  readonly step = (): void => {
    this.#done++;
    const share = Math.min(1, this.#done / this.#total);
    const filled = Math.round(WIDTH * share);
    this.#draw(`\r[${"#".repeat(filled)}${" ".repeat(WIDTH - filled)}] ${this.#done}/${this.#total}`);
  };

  /** Wipes the bar away. */
  clear(): void {
    this.#draw("\r\x1b[K");
  }

  #draw(text: string): void {
    if (this.#visible) Deno.stderr.writeSync(new TextEncoder().encode(text));
  }
}
