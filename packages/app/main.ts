/**
 * The agent server's process. `deno task start` starts it by way of `start.ts`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { StoreError } from "@tare/store";
import { readSettings, VARIABLES } from "./settings.ts";
import { startServer } from "./start_server.ts";

try {
  // One by one: the server may read no others.
  const environment = Object.fromEntries(VARIABLES.map((name) => [name, Deno.env.get(name)]));
  const server = await startServer(readSettings(Deno.args, environment), console.error);
  let closing: Promise<void> | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, async () => {
      // A terminal's Ctrl-C comes twice: from the terminal, and from the process that started this one.
      await (closing ??= server.close());
      Deno.exit(0);
    });
  }
  // Last: whoever has read it may end the server.
  console.log(server.greeting);
} catch (error) {
  // Only what a person can mend is a sentence; anything else is a bug and shows its stack.
  if (!(error instanceof RangeError || error instanceof StoreError)) throw error;
  console.error(error.message);
  Deno.exit(1);
}
