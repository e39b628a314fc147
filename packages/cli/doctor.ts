/**
 * Says why prompts weren't read from the cache, and what would mend it, or whether an agent is rightly behind the server:
 * `deno task doctor`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { MissesReport } from "../server/client.ts";
import { agentClient, serverAddress } from "./agent_client.ts";
import { AGENTS } from "./agents/agents.ts";
import { checkInstallation } from "./agents/installation.ts";
import { commandLine } from "./command_line.ts";
import { inDigitsOf } from "./in_digits.ts";
import { shownJson, shownText } from "./terminal/shown_text.ts";

const HELP =
  `Says why prompts weren't read from the provider's cache, what that has cost, and what would mend it:

  deno task doctor [--session ID] [--from DAY] [--to DAY]
  deno task doctor AGENT [--model NAME]

  AGENT          Looks instead whether this agent is rightly behind the server: ${
    Object.keys(AGENTS).join(", ")
  }
  --model NAME   Asks this model for a word, which may cost something, to see that it streams

  --session ID   Only this session. Default: the 200 newest of the agent, and of other agents
  --from DAY     The first day, by UTC, such as 2026-01-31. Default: any
  --to DAY       The last day. Default: any
  --json         Print what the server says as JSON
  --url URL      The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.`;

/** What a client has changed, in words. */
const CHANGES: Readonly<
  Record<NonNullable<MissesReport["misses"][number]["dearest"]["changed"]>["kind"], string>
> = {
  bill: "a number for the bill",
  git_status: "the state of a repository",
  date: "a date or time",
  number: "a number or hash",
  text: "a text",
  order: "the order of tools",
  list: "which tools there are",
};

/** What was paid: dollars, as far as prices are known, else token units. */
function cost({ usd, tokenUnits, calls, unpricedCalls }: MissesReport["misses"][number]): string {
  if (unpricedCalls === calls) return inDigitsOf(tokenUnits, "token unit");
  return `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}

function told(miss: MissesReport["misses"][number]): string {
  const { name, tokens, calls, remedy, dearest: { session, call, changed } } = miss;
  return [
    `${cost(miss)}  ${name}: ${inDigitsOf(tokens, "token")} in ${inDigitsOf(calls, "call")}`,
    `    ${remedy}`,
    `    Dearest: call ${call} of session ${session}.${changed ? ` ${toldChange(changed)}` : ""}`,
  ].join("\n");
}

function toldChange(
  { where, kind, place, line, before, after }: NonNullable<
    MissesReport["misses"][number]["dearest"]["changed"]
  >,
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
  const part = (head: string, list: readonly MissesReport["misses"][number][] = []) =>
    list.length === 0 ? [] : [head, ...list.map(told)];
  return [
    `${inDigitsOf(sessions, "session")}, ${inDigitsOf(calls, "call")}: ${share.toFixed(1)} % of ${
      inDigitsOf(promptTokens, "prompt token")
    } came from the cache. The rest, and what was paid for it:`,
    ...part("NEED NOT HAVE BEEN", avoidable),
    ...part("HAD TO BE, OR NOBODY CAN SAY", others),
  ].join("\n\n");
}

const MARKS = { right: "ok   ", wrong: "WRONG", "not known": "?    " } as const;

/** Whether nothing is wrong with an agent's installation. */
async function check(name: string, { url, model }: { readonly url?: string; readonly model?: string }) {
  const entry = Object.hasOwn(AGENTS, name) ? AGENTS[name] : undefined;
  if (!entry) throw new Error(`Cannot look at ${name}: there are ${Object.keys(AGENTS).join(", ")}.`);
  const environment = Deno.env.toObject();
  const server = await serverAddress((name) => environment[name], url);
  const findings = await checkInstallation({ name, entry, server, environment, model });
  for (const { state, text } of findings) console.log(shownText(`${MARKS[state]}  ${text}`));
  return findings.every(({ state }) => state !== "wrong");
}

try {
  const { values, positionals: [agent] } = commandLine({
    allowPositionals: true,
    options: {
      model: { type: "string" },
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
  if (agent !== undefined) {
    const { model } = values;
    const isRight = await check(agent, {
      ...(given !== undefined && { url: given }),
      ...(model !== undefined && { model }),
    });
    Deno.exit(isRight ? 0 : 1);
  }
  const { url, token } = await serverAddress((name) => Deno.env.get(name), given);
  const misses = await agentClient(url, token).misses({ session, from, to });
  console.log(json ? shownJson(misses) : shownText(report(misses)));
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
