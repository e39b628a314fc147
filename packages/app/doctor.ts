/**
 * Says why prompts weren't read from the cache, and what would mend it: `deno task doctor`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { Miss, MissesReport } from "@tare/conversation/report";
import { agentClient, serverAddress } from "./agent_client.ts";
import { inDigitsOf } from "./in_digits.ts";
import { shownJson, shownText } from "./terminal/shown_text.ts";

const HELP =
  `Says why prompts weren't read from the provider's cache, what that has cost, and what would mend it:

  deno task doctor [--session ID] [--from DAY] [--to DAY]

  --session ID   Only this session. Default: the 200 newest of the agent, and of other agents
  --from DAY     The first day, by UTC, such as 2026-01-31. Default: any
  --to DAY       The last day. Default: any
  --json         Print what the server says as JSON
  --url URL      The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.`;

/** What a client has changed, in words. */
const CHANGES: Readonly<Record<NonNullable<Miss["dearest"]["changed"]>["kind"], string>> = {
  bill: "a number for the bill",
  git_status: "the state of a repository",
  date: "a date or time",
  number: "a number or hash",
  text: "a text",
  order: "the order of tools",
  list: "which tools there are",
};

/** What was paid: dollars, as far as prices are known, else token units. */
function cost({ usd, tokenUnits, calls, unpricedCalls }: Miss): string {
  if (unpricedCalls === calls) return inDigitsOf(tokenUnits, "token unit");
  return `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

function told(miss: Miss): string {
  const { name, tokens, calls, remedy, dearest: { session, call, changed } } = miss;
  return [
    `${cost(miss)}  ${name}: ${inDigitsOf(tokens, "token")} in ${inDigitsOf(calls, "call")}`,
    `    ${remedy}`,
    `    Dearest: call ${call} of session ${session}.${changed ? ` ${toldChange(changed)}` : ""}`,
  ].join("\n");
}

function toldChange(
  { where, kind, place, line, before, after }: NonNullable<Miss["dearest"]["changed"]>,
): string {
  const at = where === "tools"
    ? `tool ${place + 1}`
    : where === "instructions"
    ? "the instructions"
    : `message ${place}`;
  const quotes = before === "" && after === ""
    ? ""
    : `: ${JSON.stringify(before)} became ${JSON.stringify(after)}`;
  return `${CHANGES[kind]} changed in ${line === null ? "" : `line ${line} of `}${at}${quotes}.`;
}

function report({ sessions, calls, promptTokens, cachedTokens, misses }: MissesReport): string {
  const share = promptTokens === 0 ? 0 : 100 * cachedTokens / promptTokens;
  const [avoidable, others] = [true, false].map((wanted) =>
    misses.filter(({ avoidable }) => avoidable === wanted)
  );
  const part = (head: string, list: readonly Miss[] = []) =>
    list.length === 0 ? [] : [head, ...list.map(told)];
  return [
    `${inDigitsOf(sessions, "session")}, ${inDigitsOf(calls, "call")}: ${share.toFixed(1)} % of ${
      inDigitsOf(promptTokens, "prompt token")
    } came from the cache. The rest, and what was paid for it:`,
    ...part("NEED NOT HAVE BEEN", avoidable),
    ...part("HAD TO BE, OR NOBODY CAN SAY", others),
  ].join("\n\n");
}

try {
  const { values } = parseArgs({
    options: {
      from: { type: "string" },
      to: { type: "string" },
      session: { type: "string" },
      json: { type: "boolean" },
      url: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const { from, to, session, json, url: given, help } = values;
  if (help) {
    console.log(HELP);
    Deno.exit(0);
  }
  for (const [option, day] of Object.entries({ from, to })) {
    if (day === undefined || /^\d{4}-\d{2}-\d{2}$/.test(day)) continue;
    throw new Error(`Cannot use --${option} ${day}: it must be a day, such as 2026-01-31.`);
  }
  const { url, token } = await serverAddress((name) => Deno.env.get(name), given);
  const misses = await agentClient(url, token).misses({ session, from, to });
  console.log(json ? shownJson(misses) : shownText(report(misses)));
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
