import type { ServerAddress } from "../agent_client.ts";
import { ownerKeyIn } from "../server/find_owner_key.ts";
import { type FoundServer, runningServer } from "../server/noted_server.ts";
import { CLIENT_KEYS } from "../server/settings_files.ts";
import { denoArgs } from "../tasks.ts";
import type { Environment } from "./agents.ts";

export interface OwnServer extends ServerAddress {
  /** Stops it. Resolves to its warnings and errors. */
  readonly end: () => Promise<string>;
}

const MAX_OUTPUT_CHARS = 4_000;

/**
 * Starts a server for the command's folder, which ends with this process. It forwards chat completions and responses to
 * `baseUrl` and Messages to `messagesUrl` (default: as the environment sets).
 *
 * @throws {Error} with its output, if it ends before it listens.
 */
export async function startOwnServer(
  environment: Environment,
  { baseUrl, messagesUrl, port }: {
    readonly baseUrl: string;
    readonly messagesUrl?: string | undefined;
    readonly port?: string;
  },
): Promise<OwnServer> {
  const given = Object.entries(environment).filter(([name]) => !CLIENT_KEYS.omitted.includes(name));
  const child = new Deno.Command(Deno.execPath(), {
    args: [...denoArgs("start"), CLIENT_KEYS.flag, ...(port === undefined ? [] : ["--port", port])],
    env: {
      ...Object.fromEntries(given),
      OPENAI_BASE_URL: baseUrl,
      ...(messagesUrl !== undefined && { ANTHROPIC_BASE_URL: messagesUrl }),
      NO_COLOR: "1",
    },
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  let output = "";
  const hears = keepText(child.stderr, (text) => {
    output = (output + text).slice(-MAX_OUTPUT_CHARS);
  });
  const url = Promise.withResolvers<string>();
  let greeting = "";
  const greets = keepText(child.stdout, (text) => {
    greeting += text;
    const [, address] = /listens on (\S+)\n/.exec(greeting) ?? [];
    if (address !== undefined) url.resolve(address);
  });
  const ended = Promise.all([child.status, hears, greets]);
  ended.then(() => url.reject(new Error(output.trim() || "Cannot start the server: it ended at once.")));
  const listens = await url.promise;
  const found: FoundServer | undefined = await runningServer(environment);
  const token = found && ownerKeyIn(found.data);
  return {
    url: listens,
    ...(token !== undefined && { token }),
    async end() {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended already.
      }
      await ended;
      return output.replaceAll(/^(Download|Initialize) .*\n/gm, "");
    },
  };
}

async function keepText(stream: ReadableStream<Uint8Array>, keep: (text: string) => void): Promise<void> {
  for await (const text of stream.pipeThrough(new TextDecoderStream())) keep(text);
}
