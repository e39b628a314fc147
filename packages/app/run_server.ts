// deno-lint-ignore-file no-console
import { printableText, whenLeft } from "@tare/cli/parts";
import { StoreError } from "@tare/session";
import { type Parts, startServer } from "./compose.ts";
import { readBootstrap } from "./bootstrap.ts";
import { findPlaces } from "@tare/tools/internal/instructions";
import { readSettings } from "./settings/settings.ts";
import { sendHeartbeats } from "./supervise.ts";

/** Time for the shutdown after the turns, in milliseconds. */
const END_MS = 5000;

/** Within this time a second SIGINT is a forwarded copy of the terminal's Ctrl-C, in milliseconds. */
const CTRL_C_MS = 300;

/** Runs the agent server in this process until it is ended. */
export async function runServer(parts: Parts = {}, args: readonly string[] = Deno.args): Promise<void> {
  try {
    const log = (line: string) => console.error(printableText(line));
    const bootstrap = await readBootstrap();
    const { environment, sandbox, lastPort, maxConnections, runsAlone, stored } = bootstrap;
    const showsKey = Deno.stdout.isTerminal();
    const settings = readSettings(args, environment);
    const places = bootstrap.places ?? findPlaces(settings.workspace);
    const server = await startServer(settings, log, {
      ...{ sandbox, showsKey, places, lastPort, maxConnections, environment, runsAlone, stored },
      ...parts,
    });
    let endsSince: number | undefined;
    const end = async (signal?: Deno.Signal) => {
      if (endsSince !== undefined) {
        const isSame = signal === "SIGINT" && performance.now() - endsSince < CTRL_C_MS;
        if (signal === undefined || isSame) return;
        Deno.exit(1);
      }
      endsSince = performance.now();
      // Ctrl-C stops turns at once.
      const suspends = signal !== "SIGINT";
      const limitMs = END_MS + (suspends ? settings.endWithinSeconds * 1000 : 0);
      setTimeout(() => {
        console.error(
          `Cannot shut down cleanly: work still hangs after ${
            limitMs / 1000
          } seconds. Acknowledged data is stored.`,
        );
        Deno.exit(1);
      }, limitMs);
      await server.close({ suspends });
      Deno.exit(0);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      Deno.addSignalListener(signal, () => end(signal));
    }
    whenLeft(() => end());
    sendHeartbeats();
    // Last: a parent process may end the server after reading it.
    console.log(server.greeting);
  } catch (error) {
    // Expected errors are printed without a stack.
    if (!(error instanceof RangeError || error instanceof StoreError)) throw error;
    console.error(printableText(error.message));
    Deno.exit(1);
  }
}
