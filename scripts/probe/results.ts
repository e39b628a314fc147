import { join } from "@std/path";

/** Conditions of a measurement; results are continued only under equal ones. */
export interface Circumstances {
  readonly task: string;
  readonly model: string;
  readonly provider: string;
  readonly profile: string;
  readonly settings: Readonly<Record<string, unknown>>;
}

interface Contents<R> {
  readonly circumstances: Circumstances;
  readonly seed: number;
  readonly spentUsd: number;
  readonly calls: number;
  readonly results: Readonly<Record<string, R>>;
  readonly summary?: unknown;
}

/** Results in a JSON file that is written atomically, so that an interrupted run can continue. */
export class Results<R> {
  readonly #path: string;
  #contents: Contents<R>;

  /**
   * Opens or creates the file.
   *
   * @param path File; its folder is created.
   * @throws {RangeError} if the file contains anything but results under the same conditions.
   */
  constructor(path: string, { circumstances, seed }: Pick<Contents<R>, "circumstances" | "seed">) {
    this.#path = path;
    this.#contents = read(path, circumstances) ??
      { circumstances, seed, spentUsd: 0, calls: 0, results: {} };
    Deno.mkdirSync(join(path, ".."), { recursive: true });
    this.#change({});
  }

  get seed(): number {
    return this.#contents.seed;
  }

  get spentUsd(): number {
    return this.#contents.spentUsd;
  }

  get(key: string): R | undefined {
    return this.#contents.results[key];
  }

  set(key: string, result: R | undefined): void {
    const { [key]: _, ...others } = this.#contents.results;
    this.#change({ results: result === undefined ? others : { ...others, [key]: result } });
  }

  spend(usd: number): void {
    this.#change({ spentUsd: this.#contents.spentUsd + usd, calls: this.#contents.calls + 1 });
  }

  summarize(summary: unknown): void {
    this.#change({ summary });
  }

  #change(change: Partial<Contents<R>>): void {
    this.#contents = { ...this.#contents, ...change };
    Deno.writeTextFileSync(`${this.#path}.new`, `${JSON.stringify(this.#contents, null, 2)}\n`);
    Deno.renameSync(`${this.#path}.new`, this.#path);
  }
}

function read<R>(path: string, now: Circumstances): Contents<R> | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  const contents = parse(text);
  if (!contents?.circumstances || !contents.results) return refuse(path, "it contains no results");
  for (const [what, value] of Object.entries(now)) {
    const before = JSON.stringify(contents.circumstances[what as keyof Circumstances]);
    if (before !== JSON.stringify(value)) {
      refuse(path, `it was measured with ${what} ${before}, not ${JSON.stringify(value)}`);
    }
  }
  return contents;
}

function parse(text: string) {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function refuse(path: string, why: string): never {
  throw new RangeError(`Cannot continue with ${path}: ${why}. Use another --name or move the file.`);
}
