/** A function of a program that ran. */
export interface EnteredFunction {
  /** Its file, from the folder whose functions are marked. */
  readonly path: string;
  /** Empty if it has none. */
  readonly name: string;
  /** Where it begins in what the file compiles to. */
  readonly offset: number;
}

/** A program that listens, of whose functions each run is known. */
export interface MarkedProgram extends AsyncDisposable {
  readonly url: string;
  /** The functions that have begun to run since this was last asked. What runs once as a file is loaded is none. */
  readonly entered: () => Promise<readonly EnteredFunction[]>;
}

/** What V8's profiler tells of a file. */
interface Script {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    /** Of the whole function first. */
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
  }[];
}

/**
 * Starts a program with a port for debuggers, waits until it prints where it listens, and has V8 count the runs of each
 * function in `folder`.
 *
 * @throws {Error} with what it said, if it ends before it listens.
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
  const errors = told(process.stderr, /Debugger listening on (\S+)\n/);
  const output = told(process.stdout, /listens on (\S+)\n/);
  const end = async () => {
    try {
      process.kill("SIGTERM");
    } catch (error) {
      // It has ended by itself.
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
  let asked = 0;
  const ask = (method: string, params = {}) => {
    const answer = Promise.withResolvers<{ readonly result: readonly Script[] }>();
    answers.set(++asked, answer);
    socket.send(JSON.stringify({ id: asked, method, params }));
    return answer.promise;
  };
  await ask("Profiler.enable");
  await ask("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  return {
    url,
    entered: async () => enteredIn((await ask("Profiler.takePreciseCoverage")).result, folder),
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => socket.onclose = resolve);
      // First: a program with a debugger waits for its leave.
      socket.close();
      await closed;
      await end();
    },
  };
}

/** What a program prints in the brackets of `pattern`; whatever else it prints is read and left. */
function told(
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
      // What stands at the beginning and has no name is the file itself.
      if (!whole || whole.count === 0 || (name === "" && whole.startOffset === 0)) return [];
      return [{ path: url.slice(folder.href.length), name, offset: whole.startOffset }];
    })
  );
}
