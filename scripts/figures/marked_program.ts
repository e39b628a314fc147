export interface EnteredFunction {
  readonly path: string;
  /** Name; "" for an anonymous function. */
  readonly name: string;
  readonly offset: number;
}

export interface MarkedProgram extends AsyncDisposable {
  readonly url: string;
  /** Returns the functions that ran since the last call, except module-level code. */
  readonly entered: () => Promise<readonly EnteredFunction[]>;
}

interface Script {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    /** The first range is the whole function. */
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
  }[];
}

/**
 * Starts a program with an inspector, waits until it prints its address, and counts the runs of each function in `folder`.
 *
 * @throws {Error} with its output, if it ends before it listens.
 */
export async function startMarked(
  args: readonly string[],
  { folder, env = {} }: { readonly folder: URL; readonly env?: Readonly<Record<string, string>> },
): Promise<MarkedProgram> {
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "--inspect=127.0.0.1:0", ...args],
    env: { ...env, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const errors = record(process.stderr, /Debugger listening on (\S+)\n/);
  const output = record(process.stdout, /listens on (\S+)\n/);
  const end = async () => {
    try {
      process.kill("SIGTERM");
    } catch (error) {
      if (!(error instanceof TypeError || error instanceof Deno.errors.NotFound)) throw error;
    }
    await Promise.all([process.status, errors.ended, output.ended]);
  };
  const [debuggerUrl, url] = await Promise.all([errors.value, output.value]).catch(async (error) => {
    await end();
    throw error;
  });
  const socket = new WebSocket(debuggerUrl);
  const answers = new Map<number, PromiseWithResolvers<{ readonly result: readonly Script[] }>>();
  socket.onmessage = ({ data }) => {
    const { id, result } = JSON.parse(data);
    answers.get(id)?.resolve(result);
    answers.delete(id);
  };
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error(`Cannot mark functions: no debugger at ${debuggerUrl}`));
  });
  let requestCount = 0;
  const ask = (method: string, params = {}) => {
    const answer = Promise.withResolvers<{ readonly result: readonly Script[] }>();
    answers.set(++requestCount, answer);
    socket.send(JSON.stringify({ id: requestCount, method, params }));
    return answer.promise;
  };
  await ask("Profiler.enable");
  await ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return {
    url,
    entered: async () => enteredIn((await ask("Profiler.takePreciseCoverage")).result, folder),
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => socket.onclose = resolve);
      // First, because a program waits for its debugger to disconnect.
      socket.close();
      await closed;
      await end();
    },
  };
}

function record(
  output: ReadableStream<Uint8Array<ArrayBuffer>>,
  pattern: RegExp,
): { readonly value: Promise<string>; readonly ended: Promise<void> } {
  const found = Promise.withResolvers<string>();
  const read = async () => {
    let text = "";
    for await (const piece of output.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const value = pattern.exec(text)?.[1];
      if (value !== undefined) found.resolve(value);
    }
    found.reject(new Error(`The program ended before it listened: ${text}`));
  };
  return { value: found.promise, ended: read() };
}

function enteredIn(scripts: readonly Script[], folder: URL): EnteredFunction[] {
  return scripts.filter(({ url }) => url.startsWith(folder.href)).flatMap(({ url, functions }) =>
    functions.flatMap(({ functionName: name, ranges: [whole] }) => {
      // An anonymous function at offset 0 is the module itself.
      if (!whole || whole.count === 0 || (name === "" && whole.startOffset === 0)) return [];
      return [{ path: url.slice(folder.href.length), name, offset: whole.startOffset }];
    })
  );
}
