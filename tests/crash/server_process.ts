import { fromFileUrl } from "@std/path";
import type { Parts } from "../../packages/app/compose.ts";
import { serverPermissions, V8_FLAGS } from "../../packages/app/bootstrap.ts";
import { readSettings } from "../../packages/app/settings/settings.ts";
import { startProgram } from "./program.ts";

export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  readonly kill: () => Promise<string>;
}

const MAIN = fromFileUrl(new URL("../../packages/app/main.ts", import.meta.url));
const WITH_PARTS = fromFileUrl(new URL("../server_with_parts.ts", import.meta.url));

/** Returns the command of the server's own process, with parts that no setting chooses. */
export function serverCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  parts?: Pick<Parts, "triggers">,
): Deno.Command {
  const program = parts ? [WITH_PARTS, JSON.stringify(parts)] : [MAIN];
  const inherited = ["PATH", "HOME", "DENO_DIR", "TMPDIR"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", V8_FLAGS, ...serverPermissions(readSettings(args, env)), ...program, ...args],
    env: { ...Object.fromEntries(inherited), NO_COLOR: "1", ...env },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** Starts the server and waits until it listens. @throws {Error} with its output, if it ends before. */
export async function startServerProcess(
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
  parts?: Pick<Parts, "triggers">,
): Promise<ServerProcess> {
  const { url, pid, end } = await startProgram(serverCommand(args, env, parts));
  return { url, pid, kill: () => end("SIGKILL") };
}
