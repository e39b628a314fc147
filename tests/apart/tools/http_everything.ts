import { freePort } from "../../crash/free_port.ts";
import { npmServer } from "./mcp_programs.ts";

export interface HttpEverything extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
}

/** Starts a server. Default of the port: a free one, since the program doesn't accept 0. */
export async function httpEverything(port: number = freePort()): Promise<HttpEverything> {
  const { command, args, env } = npmServer("everything", "streamableHttp");
  const program = new Deno.Command(command, {
    args: [...args],
    env: { ...env, PORT: `${port}` },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reader = program.stderr.pipeThrough(new TextDecoderStream()).getReader();
  for (let output = ""; !output.includes("listening on port");) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`It ended before it listened: ${output}`);
    output += value;
  }
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    async [Symbol.asyncDispose]() {
      program.kill("SIGKILL");
      await program.status;
      await reader.cancel();
    },
  };
}
