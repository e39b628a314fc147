/** A process that listens. Disposing of it ends it and waits until it is gone. */
export interface Listening extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  /** The process's id. */
  readonly pid: number;
  /** From its start until this moment, in milliseconds. */
  readonly elapsedMs: () => number;
}

/**
 * Runs Deno with these arguments, and these variables beside the environment's, until the process says that it
 * `listens on URL`. @throws {Error} if it ends before.
 */
export async function startListening(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Listening> {
  const startedAt = performance.now();
  const elapsedMs = () => performance.now() - startedAt;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", "--no-prompt", ...args],
    env,
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const url = Promise.withResolvers<string>();
  const read = async () => {
    let text = "";
    for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const told = /listens on (\S+)\n/.exec(text)?.[1];
      if (told !== undefined) url.resolve(told);
    }
    url.reject(new Error(`Cannot measure: ${args.join(" ")} ended before it listened.`));
  };
  const output = read();
  return {
    url: await url.promise,
    pid: process.pid,
    elapsedMs,
    async [Symbol.asyncDispose]() {
      process.kill("SIGTERM");
      await Promise.all([process.status, output]);
    },
  };
}
