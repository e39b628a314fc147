import { fromFileUrl } from "@std/path";
import type { Parts } from "../../packages/app/compose.ts";
import { serverPermissions, V8_FLAGS } from "../../packages/app/bootstrap.ts";
import { readSettings } from "../../packages/app/settings/settings.ts";

export interface AttackedServer extends AsyncDisposable {
  readonly url: string;
  readonly state: () => Promise<{ readonly memoryMiB: number; readonly descriptors: number }>;
  readonly signal: (signal: Deno.Signal) => void;
  readonly ended: Promise<{ readonly code: number; readonly stderr: string }>;
}

const APP = new URL("../../packages/app/", import.meta.url);

/**
 * Starts the server by `main.ts` or `start.ts`, and waits until it listens. Its environment contains only
 * what Deno needs; `descriptors` limits its file descriptors (default: those of this process).
 */
export async function startAttacked(
  flags: readonly string[],
  { descriptors, parts, by = "main" }: {
    readonly descriptors?: number;
    /** Server parts that `main.ts` has no flags for. Default: none. */
    readonly parts?: Pick<Parts, "maxConnections"> | undefined;
    readonly by?: "main" | "start";
  } = {},
): Promise<AttackedServer> {
  const args = ["--port", "0", ...flags];
  const permissions = by === "main"
    ? [V8_FLAGS, ...serverPermissions(readSettings(args, {}))]
    : ["--no-prompt", "--allow-read", "--allow-run", "--allow-env"];
  const program = parts
    ? [fromFileUrl(new URL("../server_with_parts.ts", import.meta.url)), JSON.stringify(parts)]
    : [fromFileUrl(new URL(`${by}.ts`, APP))];
  const command = [Deno.execPath(), "run", "--frozen", ...permissions, ...program];
  const limit = descriptors === undefined ? "" : `ulimit -n ${descriptors}; `;
  const inherited = ["PATH", "HOME", "DENO_DIR", "TMPDIR"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  const process = new Deno.Command("sh", {
    args: ["-c", `${limit}exec "$@"`, "sh", ...command, ...args],
    env: { ...Object.fromEntries(inherited), NO_COLOR: "1" },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stderr = new Response(process.stderr).text();
  const listens = Promise.withResolvers<string>();
  const output = (async () => {
    let text = "";
    for await (const piece of process.stdout.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const address = /listens on (\S+)\n/.exec(text)?.[1];
      if (address !== undefined) listens.resolve(address);
    }
    listens.reject(new Error(`The server ended before it listened: ${await stderr}`));
  })();
  const ended = Promise.all([process.status, stderr, output]).then(([{ code }, log]) => ({
    code,
    stderr: log,
  }));
  const { pid } = process;
  return {
    url: await listens.promise,
    signal: (signal) => process.kill(signal),
    ended,
    async state() {
      const script = `grep VmRSS /proc/${pid}/status; ls /proc/${pid}/fd | wc -l`;
      // Deno reads /proc only with all permissions.
      const { stdout } = await new Deno.Command("sh", { args: ["-c", script] }).output();
      const [, memory, open] = /(\d+) kB\n(\d+)/.exec(new TextDecoder().decode(stdout)) ?? [];
      return { memoryMiB: Number(memory) / 1024, descriptors: Number(open) };
    },
    async [Symbol.asyncDispose]() {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended by itself.
      }
      await ended;
    },
  };
}
