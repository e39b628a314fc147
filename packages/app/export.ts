/**
 * Writes a session as chat messages, one a line: `deno task export ID`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { agentClient, serverAddress } from "./agent_client.ts";

const HELP = `Writes a session as chat messages, one a line of JSON, to standard output:

  deno task export [--url URL] ID

  --url URL  The server. Default: from TARE_HOST and TARE_PORT, http://127.0.0.1:8787

TARE_TOKEN is sent along if it is set.`;

try {
  const { values, positionals: [id] } = parseArgs({
    allowPositionals: true,
    options: { url: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help || id === undefined) {
    console.error(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  const { url, token } = serverAddress((name) => Deno.env.get(name), values.url);
  const client = agentClient(url, token);
  await (await client.exportSession(id)).pipeTo(Deno.stdout.writable);
} catch (error) {
  console.error((error as Error).message);
  Deno.exit(1);
}
