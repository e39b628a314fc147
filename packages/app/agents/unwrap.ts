/**
 * Takes out of agents' own configuration what `tare wrap` has written there: `tare unwrap`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { shownText } from "../terminal/shown_text.ts";
import { unwrap, wrappedAgents } from "./wrapping.ts";
import { writeChange } from "./write_change.ts";

const HELP = `Makes agents' own configuration what it was before tare wrap, byte for byte:

  deno task unwrap [AGENT] [--yes]

  AGENT  Default: all that are wrapped
  --yes  Write without asking. What changes is shown in any case

Of a file that was changed since, only what Tare has written goes.`;

try {
  const { values: { yes = false, help }, positionals } = parseArgs({
    allowPositionals: true,
    options: { yes: { type: "boolean" }, help: { type: "boolean", short: "h" } },
  });
  if (help) {
    console.log(HELP);
    Deno.exit(0);
  }
  const environment = Deno.env.toObject();
  const names = positionals.length > 0 ? positionals : wrappedAgents(environment);
  if (names.length === 0) console.log("No agent is wrapped.");
  for (const name of names) {
    const isDone = writeChange(unwrap(name, environment), { yes });
    console.log(isDone ? `${name} doesn't ask Tare any more.` : "Nothing was written.");
  }
  Deno.exit(0);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
