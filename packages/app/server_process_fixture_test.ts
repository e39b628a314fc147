/**
 * Starts the real agent server in a process of its own, as `deno task start` does. Contains no tests.
 *
 * @module
 */
import { fromFileUrl } from "@std/path";

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ServerProcess {
  readonly url: string;
  readonly end: (signal: Deno.Signal) => Promise<Ended>;
  readonly ended: Promise<Ended>;
}

/** Returns a process's output without Deno's lines about installing modules. */
export function withoutInstalls(text: string): string {
  return text.replaceAll(/^(Download|Initialize) .*\n/gm, "");
}

const START = fromFileUrl(new URL("start.ts", import.meta.url));

/** Returns the command that starts the server, with only the environment that Deno needs. */
export function startCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Deno.Command {
  const inherited = ["PATH", "HOME", "DENO_DIR", "TMPDIR"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-read", "--allow-run", "--allow-env", START, ...args],
    env: { ...Object.fromEntries(inherited), NO_COLOR: "1", ...env },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

export async function startProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<ServerProcess> {
  const process = startCommand(args, env).spawn();
  const stderr = new Response(process.stderr).text().then(withoutInstalls);
  const url = Promise.withResolvers<string>();
  const readOutput = async () => {
    let text = "";
    for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const address = /listens on (\S+)\n/.exec(text)?.[1];
      if (address !== undefined) url.resolve(address);
    }
    url.reject(new Error(`The server ended before it listened: ${await stderr}`));
    return text;
  };
  const stdout = readOutput();
  const listening = await url.promise;
  const ended = Promise.all([process.status, stdout, stderr])
    .then(([{ code }, stdout, stderr]) => ({ code, stdout, stderr }));
  return {
    url: listening,
    end(signal) {
      process.kill(signal);
      return ended;
    },
    ended,
  };
}
