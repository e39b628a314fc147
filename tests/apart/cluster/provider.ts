import { fromFileUrl } from "@std/path";
import { startProgram } from "../../crash/program.ts";
import type { RecordedRequest } from "../../recording_provider.ts";

export interface Provider extends AsyncDisposable {
  readonly url: string;
  /** Returns a conversation's requests in order of arrival, by its first text. */
  readonly requestsOf: (firstText: string) => Promise<readonly RecordedRequest[]>;
}

const PROGRAM = fromFileUrl(new URL("provider_process.ts", import.meta.url));

export async function startProvider(seed: number): Promise<Provider> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", "--allow-net=127.0.0.1", "--allow-read", "--allow-env", PROGRAM, String(seed)],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const program = await startProgram(command);
  return {
    url: program.url,
    async requestsOf(firstText) {
      return await (await fetch(`${program.url}/recorded?of=${encodeURIComponent(firstText)}`)).json();
    },
    async [Symbol.asyncDispose]() {
      await program.end("SIGKILL");
    },
  };
}

export function extendsRequest(before: RecordedRequest, after: RecordedRequest): boolean {
  return before.tools === after.tools &&
    before.messages.every((message, index) => message === after.messages[index]);
}
