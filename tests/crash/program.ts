export interface Program {
  readonly url: string;
  readonly pid: number;
  readonly said: () => string;
  readonly signal: (signal: Deno.Signal) => void;
  readonly ended: () => Promise<string>;
  readonly end: (signal: Deno.Signal) => Promise<string>;
}

/** Starts a program and waits for its address. @throws {Error} with its output, if it ends before. */
export async function startProgram(command: Deno.Command): Promise<Program> {
  const process = command.spawn();
  let said = "";
  const listening = (async () => {
    for await (const piece of process.stderr.pipeThrough(new TextDecoderStream())) said += piece;
  })();
  const url = Promise.withResolvers<string>();
  const readOutput = async () => {
    let text = "";
    for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const told = /listens on (\S+)\n/.exec(text)?.[1];
      if (told !== undefined) url.resolve(told);
    }
    await listening;
    url.reject(new Error(`The program ended before it listened: ${said}`));
  };
  const output = readOutput();
  const signal = (signal: Deno.Signal) => {
    try {
      process.kill(signal);
    } catch {
      // It has ended by itself.
    }
  };
  const ended = async () => {
    await Promise.all([process.status, output, listening]);
    return said;
  };
  return {
    url: await url.promise,
    pid: process.pid,
    said: () => said,
    signal,
    ended,
    end(last) {
      signal(last);
      return ended();
    },
  };
}
