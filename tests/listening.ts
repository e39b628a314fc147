import { fromFileUrl } from "@std/path";
import { serverPermissions, V8_FLAGS } from "../packages/app/bootstrap.ts";
import { readSettings } from "../packages/app/settings/settings.ts";

export interface Listening extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
}

/** Runs Deno until it prints `listens on URL`. @throws {Error} if it ends before. */
export async function startListening(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Listening> {
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
      const address = /listens on (\S+)\n/.exec(text)?.[1];
      if (address !== undefined) url.resolve(address);
    }
    url.reject(new Error(`Cannot measure: ${args.join(" ")} ended before it listened.`));
  };
  const output = read();
  return {
    url: await url.promise,
    pid: process.pid,
    async [Symbol.asyncDispose]() {
      process.kill("SIGTERM");
      await Promise.all([process.status, output]);
    },
  };
}

/** Starts `main.ts` on a free port, with the start command's permissions and V8 flags. */
export function startMain(
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Listening> {
  const args = ["--port", "0", ...flags];
  const main = fromFileUrl(new URL("../packages/app/main.ts", import.meta.url));
  return startListening([V8_FLAGS, ...serverPermissions(readSettings(args, env)), main, ...args], env);
}
