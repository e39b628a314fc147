const BAR_WIDTH = 40;

/** A progress bar on standard error, if that is a terminal. */
export class ProgressBar {
  readonly #total: number;
  readonly #visible = Deno.stderr.isTerminal();
  #done = 0;
  #drawn = "";

  constructor(total: number) {
    this.#total = total;
  }

  readonly step = (by = 1): void => {
    this.#done += by;
    const share = Math.min(1, this.#done / this.#total);
    const filled = Math.round(BAR_WIDTH * share);
    const bar = `\r[${"#".repeat(filled)}${" ".repeat(BAR_WIDTH - filled)}] ${Math.floor(100 * share)} %`;
    if (bar !== this.#drawn) this.#draw(this.#drawn = bar);
  };

  clear(): void {
    this.#draw("\r\x1b[K");
  }

  #draw(text: string): void {
    if (this.#visible) Deno.stderr.writeSync(new TextEncoder().encode(text));
  }
}
