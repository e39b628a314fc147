// deno-lint-ignore-file no-console
import { StoreError } from "@tare/conversation";
import { whenLeft } from "./launchers.ts";
import { readSettings, VARIABLES } from "./settings/settings.ts";
import { type Parts, startServer } from "./start_server.ts";

/** Longest orderly end, in milliseconds. */
const END_MS = 5000;

/** Within so many milliseconds a terminal's Ctrl-C has come from itself and from each process that passes it on. */
const CTRL_C_MS = 300;

/** Runs the agent server as this process: by its flags and environment, until it is told to end. */
export async function runServer(parts: Parts = {}): Promise<void> {
  try {
    // One by one: the server may read no others.
    const environment = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
    const server = await startServer(readSettings(Deno.args, environment), console.error, parts);
    let endsSince: number | undefined;
    const end = async (signal?: Deno.Signal) => {
      if (endsSince !== undefined) {
        const isSame = signal === "SIGINT" && performance.now() - endsSince < CTRL_C_MS;
        if (signal === undefined || isSame) return;
        Deno.exit(1);
      }
      endsSince = performance.now();
      setTimeout(() => {
        console.error(
          `Cannot end in order: something hangs after ${
            END_MS / 1000
          } seconds. What was acknowledged is stored.`,
        );
        Deno.exit(1);
      }, END_MS);
      await server.close();
      Deno.exit(0);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      Deno.addSignalListener(signal, () => end(signal));
    }
    whenLeft(() => end());
    // Last: whoever has read it may end the server.
    console.log(server.greeting);
  } catch (error) {
    // Only what a person can mend is a sentence; anything else is a bug and shows its stack.
    if (!(error instanceof RangeError || error instanceof StoreError)) throw error;
    console.error(error.message);
    Deno.exit(1);
  }
}
