/**
 * Plays recorded sessions against a simulated prefix cache, and prints each policy's cost and losses. A call
 * that needs an earlier text or name that its prompt no longer contains is preceded by a paid refetch.
 * `unaffected` is the share of sessions without a refetch.
 *
 *     deno task bench savings [--data DIR] [--profile NAME]… [--policy NAME]… [--split A|B] [--window TOKENS]
 *                             [--limit N] [--bare] [--names parts|whole] [--json]
 *
 * Without `--data` a generated workload is played. `--policy` takes Tare's policies, simple ones, and the
 * peers of this folder's `README.md`; `--peers` plays all of these. `--split` takes one half of the
 * recordings. `--bare` counts only prompt tokens: no fixed prefix, no recall tool, no output. A name counts
 * as visible if each of its parts is, such as `a/b.ts` under a heading `a/`; with `--names whole` only as a
 * whole. `--json` prints one object a line. `planner` has the defaults of gateway, server and adapters; the
 * policies `planner-…` differ in what their names contain. "Of bill" compares with what the recorded client
 * paid (`scripts/savings/real_bill.ts`).
 *
 *     deno task bench savings tables --data DIR [--plot FILE.svg]
 *     deno task bench savings compare --data DIR [--policy NAME]… [--profile NAME]… [--json]
 *
 * print the tables of `docs/savings.md`, and a line per policy, half and provider, for a change of policies.
 * Both replay only sessions whose usage reports cache reads.
 *
 *     deno task bench savings keep-alive --data DIR [--split A|B] [--planner] [--end reported]
 *
 * plays the pauses of recorded sessions at Anthropic's prices: the cost without keep-alive requests, with
 * fixed numbers of them, with prompts written for an hour, with the planner's clock, and with foresight.
 * Prompts are as long as their providers reported them; with `--planner` they are pruned and counted here,
 * and refetches are charged three times.
 * Keep-alive requests after a session's end are paid; with `--end reported` none is made, because the client
 * reports the end.
 *
 *     deno task bench savings tools [--data DIR] [--profile NAME]…
 *
 * plays a session with many tools, offered in full, deferred, compact by the planner, or compact at once.
 * The tools are those of `github-mcp-server.json` in the folder `--data`, or as many generated ones.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { benchPolicies } from "../../../scripts/savings/economy.ts";
import { POLICIES } from "../../../scripts/savings/policies/policies.ts";
import { benchTools } from "../../../scripts/savings/many_tools.ts";
import { benchKeepAlive } from "../../../scripts/savings/keep_alive.ts";
import { benchComparison, benchTables } from "../../../scripts/savings/tables.ts";
import { peerNamed, PEERS } from "./peers.ts";

try {
  const [part, ...args] = Deno.args;
  if (part === "tables") await benchTables(args);
  else if (part === "compare") await benchComparison(args);
  else if (part === "keep-alive") await benchKeepAlive(args);
  else if (part === "tools") await benchTools(args);
  else {
    const names = Deno.args.includes("--peers") ? ["resend", ...Object.keys(PEERS)] : Object.keys(POLICIES);
    await benchPolicies(Deno.args.filter((arg) => arg !== "--peers"), { names, named: peerNamed });
  }
} catch (error) {
  console.error((error as Error).message);
  Deno.exitCode = 1;
}
