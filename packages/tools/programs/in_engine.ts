export interface Given {
  readonly nowMs: number;
  readonly seed: number;
  readonly mostPrinted: number;
  readonly mostArguments: number;
}

/** Result of a program. */
export interface Ended {
  readonly printed: string;
  readonly failure?: Pick<Error, "name" | "message"> & { readonly stack: string };
}

type Call = (name: string, args: string, printed: string) => Promise<{
  readonly content: string;
  readonly error: boolean;
}>;

/**
 * Runs a program in the engine with its tools, `print`, and the same time and random numbers in every run.
 * Waits for every call, and fails once there is nothing left to wait for. Passed to the engine as source
 * text, so it may use only its parameters and the language.
 */
export async function playIn(
  host: { readonly call: Call; readonly rest: () => Promise<void> },
  given: Given,
  program: (...own: readonly unknown[]) => Promise<unknown>,
): Promise<Ended> {
  let printed = "";
  let taken = 0;
  const printable = (value: unknown): string => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    try {
      return JSON.stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  const print = (...values: readonly unknown[]) => {
    const line = `${values.map(printable).join(" ")}\n`;
    if (printed.length + line.length > given.mostPrinted) {
      const most = `${given.mostPrinted} characters`;
      throw new RangeError(`Cannot print more than ${most}: print less, or call again for the rest.`);
    }
    printed += line;
  };

  const pending: Promise<unknown>[] = [];
  const make = async (name: string, args: unknown, stack: string | undefined): Promise<string> => {
    const more = printed.slice(taken);
    taken = printed.length;
    const text = JSON.stringify(args ?? {}) ?? "{}";
    if (text.length > given.mostArguments) {
      const state = `its arguments have ${text.length} characters of JSON`;
      throw new RangeError(`Cannot call ${name}: ${state}; the limit is ${given.mostArguments}.`);
    }
    const { content, error } = await host.call(name, text, more);
    if (!error) return content;
    const failure = new Error(content);
    failure.name = "ToolError";
    if (stack !== undefined) failure.stack = stack;
    throw failure;
  };
  const call = (name: string, args: unknown) => {
    const made = make(name, args, new Error().stack);
    pending.push(made.catch(() => {}));
    return made;
  };
  const tools = new Proxy({}, {
    get: (_, name) =>
      typeof name === "symbol" || name === "then" ? undefined : (args: unknown) => call(name, args),
  });

  class GivenDate extends Date {
    constructor(...args: readonly unknown[]) {
      super(...(args.length === 0 ? [given.nowMs] : args) as [number]);
    }
    static override now(): number {
      return given.nowMs;
    }
  }
  let chance = given.seed;
  // mulberry32
  const random = () => {
    chance = (chance + 0x6d2b79f5) | 0;
    let mixed = Math.imul(chance ^ (chance >>> 15), 1 | chance);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const math = Object.create(Math, { random: { value: random } });
  const console = { log: print, info: print, debug: print, warn: print, error: print };

  let isOver = false;
  let failure: Ended["failure"];
  const play = async () => {
    try {
      const value = await program(tools, print, console, GivenDate, math);
      if (value !== undefined) print(value);
    } catch (error) {
      failure = error instanceof Error
        ? { name: error.name, message: error.message, stack: String(error.stack) }
        : { name: "Error", message: printable(error), stack: "" };
    }
    isOver = true;
  };
  void play();
  for (let seen = -1; seen !== pending.length;) {
    seen = pending.length;
    await Promise.all(pending);
    // The results may trigger more calls after any number of ticks: external answers come after these.
    if (seen === pending.length) await host.rest();
  }
  if (!isOver) {
    const message =
      "It waits for a promise that nothing resolves: no call runs any more, and there are no timers. " +
      "Await the calls themselves, or resolve it.";
    failure = { name: "Error", message, stack: "" };
  }
  return { printed: printed.slice(taken), ...(failure && { failure }) };
}
