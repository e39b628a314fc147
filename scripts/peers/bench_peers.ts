/**
 * Plays recorded sessions under other people's policies, run as their packages ship them, like `bench:economy`, whose
 * options it takes and whose policies `--policy` knows too:
 *
 *     deno task bench:peers [--data DIR] [--profile NAME]… [--policy NAME]… [--split A|B] [--window TOKENS]
 *                           [--limit N] [--bare] [--json] [--plot FILE.svg]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { benchEconomy } from "../bench_economy.ts";
import { peerNamed, PEERS } from "./peers.ts";

try {
  await benchEconomy(Deno.args, { names: ["resend", ...Object.keys(PEERS)], named: peerNamed });
} catch (error) {
  console.error((error as Error).message);
  Deno.exitCode = 1;
}
