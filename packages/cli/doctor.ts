/**
 * Explains cache misses, or checks an agent's configuration: `deno task doctor`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { MissesReport } from "../server/client.ts";
import { serverAddress } from "./agent_client.ts";
import { AGENTS } from "./agents/agents.ts";
import { knownAgent } from "./agents/chosen_agent.ts";
import { checkInstallation } from "./agents/installation.ts";
import { checkDays, KEY_NOTE, option, REPORT_OPTIONS, runCommandLine } from "./command_line.ts";
import { counted } from "@tare/server/internal/format";
import { inDollars } from "./dollars.ts";
import { printableJson, printableText } from "./terminal/printable_text.ts";
import { withServer } from "./with_server.ts";

const CHANGES: Readonly<
  Record<NonNullable<MissesReport["misses"][number]["dearest"]["changed"]>["kind"], string>
> = {
  bill: "a billing header",
  git_status: "a Git status",
  date: "a date or time",
  number: "a number or hash",
  text: "a text",
  order: "the order of the tools",
  list: "the list of tools",
};

/** Returns the cost in dollars, or in cost units if no call has a price. */
function cost({ usd, costUnits, calls, unpricedCalls }: MissesReport["misses"][number]): string {
  return unpricedCalls === calls ? counted(costUnits, "cost unit") : `$${inDollars(usd)}`;
}

function missLine(miss: MissesReport["misses"][number]): string {
  const { name, tokens, calls, remedy, dearest: { session, call, changed } } = miss;
  return [
    `${cost(miss)}  ${name}: ${counted(tokens, "token")} in ${counted(calls, "call")}`,
    `    ${remedy}`,
    `    Most expensive: call ${call} of session ${session}.${changed ? ` ${changeLine(changed)}` : ""}`,
  ].join("\n");
}

function changeLine(
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
    list.length === 0 ? [] : [head, ...list.map(missLine)];
  return [
    `${counted(sessions, "session")}, ${counted(calls, "call")}: ${share.toFixed(1)} % of ${
      counted(promptTokens, "prompt token")
    } came from the cache. Cost of the rest (1 cost unit = 1 input token not read from the cache):`,
    ...part("AVOIDABLE", avoidable),
    ...part("UNAVOIDABLE OR UNKNOWN", others),
  ].join("\n\n");
}

const STATE_LABELS = { right: "ok   ", wrong: "FAIL ", "not known": "?    " } as const;

async function check(name: string, { url, model }: { readonly url?: string; readonly model?: string }) {
  const entry = knownAgent(name);
  if (!entry) {
    throw new Error(
      `Cannot check ${name}: it is not a known agent. Use one of ${Object.keys(AGENTS).join(", ")}.`,
    );
  }
  const environment = Deno.env.toObject();
  const server = await serverAddress((name) => environment[name], url);
  const findings = await checkInstallation({ name, entry, server, environment, model });
  for (const { state, text } of findings) console.log(printableText(`${STATE_LABELS[state]}  ${text}`));
  return findings.every(({ state }) => state !== "wrong");
}

await runCommandLine({
  call: "deno task doctor",
  summary: "Explains cache misses: their causes, what they cost, and how to avoid them",
  usage: ["[--session ID] [--from DAY] [--to DAY]", "AGENT [--model NAME]"],
  details: `AGENT: checks instead whether this agent uses the server: ${Object.keys(AGENTS).join(", ")}`,
  options: {
    model: option("NAME", "Request one word from this model to check streaming, which may cost money"),
    session: option("ID", "Only this session. Default: the 200 newest of Tare's agent and of other agents"),
    ...REPORT_OPTIONS,
  },
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values: { from, to, session, json, model, url }, positionals: [agent] }) => {
  checkDays({ from, to });
  if (agent !== undefined) {
    const isRight = await check(agent, {
      ...(url !== undefined && { url }),
      ...(model !== undefined && { model }),
    });
    return isRight ? 0 : 1;
  }
  const misses = await withServer(url, async (client) =>
    await client.misses({
      ...{ session: session === undefined ? undefined : await client.findSession(session), from, to },
    }));
  console.log(json ? printableJson(misses) : printableText(report(misses)));
  return 0;
});
