export interface Program {
  readonly url: string;
  readonly pid: number;
  readonly logged: () => string;
  readonly signal: (signal: Deno.Signal) => void;
  readonly ended: () => Promise<string>;
  readonly end: (signal: Deno.Signal) => Promise<string>;
}

/** Starts a program and waits for its address. @throws {Error} with its output, if it ends before. */
export async function startProgram(command: Deno.Command): Promise<Program> {
  const process = command.spawn();
  let logged = "";
  const listening = (async () => {
    for await (const piece of process.stderr.pipeThrough(new TextDecoderStream())) logged += piece;
  })();
  const url = Promise.withResolvers<string>();
  const readOutput = async () => {
    let text = "";
    for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const address = /listens on (\S+)\n/.exec(text)?.[1];
      if (address !== undefined) url.resolve(address);
    }
    await listening;
    url.reject(new Error(`The program ended before it listened: ${logged}`));
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
    return logged;
  };
  return {
    url: await url.promise,
    pid: process.pid,
    logged: () => logged,
    signal,
    ended,
    end(last) {
      signal(last);
      return ended();
    },
  };
}
