/**
 * Plays recorded sessions under other people's policies, run as their packages ship them, like `bench:economy`, whose
 * options it takes and whose policies `--policy` knows too:
 *
 *     deno task bench:peers [--data DIR] [--profile NAME]… [--policy NAME]… [--split A|B] [--window TOKENS]
 *                           [--limit N] [--bare] [--names parts|whole] [--by-length] [--json] [--plot FILE.svg]
 *
 * Or plays sessions of 55 to 130 calls under each adapter of `@tare/adapters`, and under a small grid of settings of what
 * its framework ships for the same job; `--all` prints each of them as a line of JSON:
 *
 *     deno task bench:peers adapters [--data DIR] [--profile NAME]… [--calls N] [--most N] [--bare] [--all]
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { benchEconomy } from "../bench_economy.ts";
import { benchAdapters } from "./adapters/bench_adapters.ts";
import { peerNamed, PEERS } from "./peers.ts";

try {
  const [first, ...rest] = Deno.args;
  if (first === "adapters") await benchAdapters(rest);
  else await benchEconomy(Deno.args, { names: ["resend", ...Object.keys(PEERS)], named: peerNamed });
} catch (error) {
  console.error((error as Error).message);
  Deno.exitCode = 1;
}
