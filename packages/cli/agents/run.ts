/**
 * Starts an installed agent with a running server as its gateway, or with a new one: `tare run AGENT`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { constants } from "node:os";
import { setTimeout } from "node:timers/promises";
import type { MissesReport, SpendReport } from "../../server/client.ts";
import { agentClient, type ServerAddress, serverAddress, statedAddress } from "../agent_client.ts";
import { exitAfter } from "../command_line.ts";
import { counted } from "@tare/server/internal/format";
import { inDollars } from "../dollars.ts";
import { callersFolder, runningServer } from "../server/noted_server.ts";
import { printableText } from "../terminal/printable_text.ts";
import { type AgentEntry, AGENTS, ANY_PROGRAM } from "./agents.ts";
import { gatewayAddresses, knownAgent, programOf } from "./chosen_agent.ts";
import { ownProviders } from "./own_providers.ts";
import { type OwnServer, startOwnServer } from "./own_server.ts";
import { copyFile, textBeforeWrap } from "./wrapping.ts";

const HELP = `Starts an installed agent with Tare as its gateway, for this process only:

  tare run AGENT [its arguments]
  tare run -- PROGRAM [its arguments]

${Object.entries(AGENTS).map(([name, { title }]) => `  ${name.padEnd(10)}${title}`).join("\n")}
  --        any program that uses the SDKs of providers or agents: it gets their variables

The gateway is the server of this folder, or of TARE_HOST and TARE_PORT. If none runs, one is started and ends with
the agent. It forwards the agent's own key or login to the address in its settings. Without one, chat completions
and responses go to OPENAI_BASE_URL and Messages to ANTHROPIC_BASE_URL, or to OpenAI and Anthropic.
At the end it prints the cost, the estimated saving, and the most expensive avoidable cache miss.`;

const CHECK_MS = 1_000;

const MAX_TRIES = 5;

const environment = Deno.env.toObject();

function chosen(): {
  readonly name?: string;
  readonly entry: Omit<AgentEntry, "tested" | "userAgents">;
  readonly args: readonly string[];
} {
  const [name, ...args] = Deno.args;
  if (name === undefined || name === "--help" || name === "-h") {
    console.log(HELP);
    Deno.exit(name === undefined ? 2 : 0);
  }
  if (name === "--") {
    const [program, ...rest] = args;
    if (program === undefined) {
      throw new Error("Cannot run a program: none follows --. Use tare run -- PROGRAM.");
    }
    return { entry: { ...ANY_PROGRAM, title: program, program }, args: rest };
  }
  const entry = knownAgent(name);
  if (entry) return { name, entry, args };
  throw new Error(
    `Cannot run ${name}: it is not a known agent. Use one of ${
      Object.keys(AGENTS).join(", ")
    }; for other programs tare run -- ${name}`,
  );
}

async function running(): Promise<ServerAddress | undefined> {
  const stated = statedAddress(environment.TARE_HOST, environment.TARE_PORT);
  if (stated === undefined && await runningServer(environment) === undefined) return undefined;
  if (stated !== undefined && !await isThere(stated)) return undefined;
  return await serverAddress((name) => environment[name]);
}

async function isThere(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5 * CHECK_MS) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

/** Replaces the server at this address if it ends, so that the agent can continue. Resolves to the new one, if any. */
async function takeOver(url: string, start: (port: string) => Promise<OwnServer>, signal: AbortSignal) {
  for (let tries = 0; !signal.aborted && tries < MAX_TRIES;) {
    await setTimeout(CHECK_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted || await isThere(url)) continue;
    tries++;
    try {
      return await start(new URL(url).port);
    } catch {
      // Another command may have started one.
    }
  }
  return undefined;
}

async function runHere(program: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = new Deno.Command(program, { args: [...args], env, cwd: callersFolder(environment) }).spawn();
  // The terminal sends Ctrl-C to the agent too; signals to this process only are forwarded.
  Deno.addSignalListener("SIGINT", () => {});
  for (const signal of Deno.build.os === "windows" ? [] : ["SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {
      try {
        child.kill(signal);
      } catch {
        // It has already ended.
      }
    });
  }
  const { code, signal } = await child.status;
  return signal === null ? code : 128 + constants.signals[signal as keyof typeof constants.signals];
}

interface LedgerState {
  readonly all: Pick<
    SpendReport["all"],
    "calls" | "usd" | "baselineUsd" | "costUnits" | "baselineCostUnits" | "unpricedCalls"
  >;
  readonly misses: MissesReport["misses"];
}

async function readLedger({ url, token }: ServerAddress): Promise<LedgerState> {
  const client = agentClient(url, token);
  const [{ all }, { misses }] = await Promise.all([client.spend({ by: "agent" }), client.misses({})]);
  return { all, misses };
}

/** Returns two lines: cost and estimated saving between two states, and an avoidable miss. */
function runReport(before: LedgerState, after: LedgerState): readonly string[] {
  const less = (name: keyof LedgerState["all"]) => after.all[name] - before.all[name];
  const calls = less("calls");
  if (calls === 0) return [];
  // Without prices, amounts are in cost units.
  const isPriced = less("unpricedCalls") < calls;
  const [paid, without] = isPriced
    ? [less("usd"), less("baselineUsd")]
    : [less("costUnits"), less("baselineCostUnits")];
  const amount = (value: number) => isPriced ? `$${inDollars(value)}` : counted(value, "cost unit");
  const saved = without - paid;
  const share = without > 0 ? ` (${(100 * Math.abs(saved) / without).toFixed(0)} %)` : "";
  const outcome = Math.abs(saved) < 0.005 * without
    ? "about as much as without Tare"
    : saved > 0
    ? `an estimated ${amount(saved)}${share} less than without Tare`
    : `an estimated ${amount(-saved)}${share} more than without Tare`;
  return [
    `Tare: ${counted(calls, "call")} cost ${amount(paid)}, ${outcome}.`,
    remedy(before, after, amount, isPriced ? "usd" : "costUnits"),
  ];
}

function remedy(
  before: LedgerState,
  after: LedgerState,
  amount: (value: number) => string,
  unit: "usd" | "costUnits",
): string {
  const [dearest] = after.misses.filter(({ avoidable }) => avoidable)
    .map((miss) => ({
      ...miss,
      paid: miss[unit] - (before.misses.find(({ cause }) => cause === miss.cause)?.[unit] ?? 0),
    }))
    .filter(({ paid }) => paid > 0)
    .sort((one, other) => other.paid - one.paid);
  return dearest
    ? `Avoidable: ${amount(dearest.paid)}, ${dearest.name}. ${dearest.remedy}`
    : "No avoidable cache misses.";
}

async function run(): Promise<number> {
  const { name, entry, args } = chosen();
  const program = programOf(entry, environment);
  const own = ownProviders(entry, { environment, read: textBeforeWrap(name, environment) });
  const upstream = {
    baseUrl: own.chat ?? (environment.OPENAI_BASE_URL || DEFAULT_PROVIDER.baseURL),
    messagesUrl: own.messages,
  };
  const found = await running();
  let started = found ? undefined : await startOwnServer(environment, upstream);
  const server = (found ?? started)!;
  const ending = new AbortController();
  try {
    const client = agentClient(server.url, server.token);
    const { forwardsTo } = await client.agent();
    const at = gatewayAddresses(entry, { url: server.url, forwardsTo, own });
    const before = await readLedger(server);
    const watched = started
      ? undefined
      : takeOver(server.url, (port) => startOwnServer(environment, { ...upstream, port }), ending.signal);
    using copy = entry.takes && entry.file && copyFile(entry.file(environment), at);
    const settingsFor = [entry.settingsFor?.(at, environment), copy && entry.takes?.(copy.path)];
    const ownArgs = settingsFor.flatMap((part) => part?.args ?? []);
    const env = Object.assign({}, environment, ...settingsFor.map((part) => part?.environment));
    const code = await runHere(program, [...ownArgs, ...args], env);
    ending.abort();
    started ??= await watched;
    const lines = runReport(before, await readLedger({ ...server, ...started }));
    for (const line of lines) console.error(printableText(line));
    if (lines.length === 0) {
      const then = name ? `tare doctor ${name} explains why` : "It may use other variables";
      console.error(`Tare: no call of ${entry.title} went through ${server.url}. ${then}.`);
    }
    return code;
  } finally {
    ending.abort();
    const output = await started?.end();
    if (output) console.error(printableText(output.trimEnd()));
  }
}

await exitAfter(run);
