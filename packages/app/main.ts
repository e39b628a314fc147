/**
 * Starts the agent server: `deno task start`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { readSettings, settingsHelp } from "./settings.ts";
import { startServer } from "./start_server.ts";

if (Deno.args.includes("--help") || Deno.args.includes("-h")) {
  console.log(settingsHelp());
  Deno.exit(0);
}

try {
  const server = await startServer(readSettings(Deno.args, Deno.env.toObject()), console.error);
  console.log(server.greeting);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, async () => {
      await server.close();
      Deno.exit(0);
    });
  }
} catch (error) {
  // Only what a person can mend is a sentence; anything else is a bug and shows its stack.
  if (!(error instanceof RangeError)) throw error;
  console.error(error.message);
  Deno.exit(1);
}
