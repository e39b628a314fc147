import { copyFile } from "../../packages/cli/agents/wrapping.ts";
import { ownerOf } from "../crash/owner.ts";
import { startServerProcess } from "../crash/server_process.ts";
import type { Ability, Agent } from "./agent.ts";
import { planModel, type Plans } from "./model.ts";
import { type Command, type Ended, runProgram } from "./program.ts";
import { type Failure, type Provider, type ProviderCall, startProvider } from "./provider.ts";
import { type Exchange, startTap } from "./tap.ts";

export interface Action {
  /** Prompts in one process, or in parallel ones; `compact` compacts the conversation. */
  readonly prompt: string | "compact" | readonly string[] | { readonly parallel: readonly string[] };
  readonly image?: string;
  /** File whose creation by a command triggers Ctrl-C. */
  readonly interruptedBy?: string;
}

export interface Scenario {
  readonly name: string;
  readonly plans: Plans;
  readonly actions: readonly Action[];
  /** Files of the workspace by path, in addition to the rules. */
  readonly files: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>>;
  /** Number of the request, from 1, before which the gateway is killed and restarted. Default: none. */
  readonly restartsBefore?: number;
  readonly failures?: Readonly<Record<number, Failure>>;
  /** Longest prompt that the agent may send, in tokens, beyond what it keeps free. Default: a million. */
  readonly windowTokens?: number;
  /** When the agent compacts the conversation: only without the gateway, or always. Default: never. */
  readonly compacts?: "directly" | "always";
  readonly needs?: Ability;
}

export interface Played {
  readonly files: Readonly<Record<string, string>>;
  readonly ended: readonly Ended[];
  readonly calls: readonly ProviderCall[];
  readonly others: readonly string[];
  readonly exchanges: readonly Exchange[];
  readonly ledger?: { readonly planned: Readonly<Record<string, number>> };
}

export const RULES = 'RULE: every report ends with the line "checked by the rule of this house".\n';

/** Plays a scenario with an agent, directly on the provider or through the gateway. */
export async function play(
  agent: Agent,
  scenario: Scenario,
  { through, inspect }: {
    readonly through: boolean;
    readonly inspect?: (home: string) => void | Promise<void>;
  },
): Promise<Played> {
  const { plans, files, failures = {} } = scenario;
  const windowTokens = (scenario.windowTokens ?? 1_000_000) + (agent.keepsFreeTokens ?? 0);
  const folder = await Deno.makeTempDir({ prefix: `agent-${agent.name.replaceAll(" ", "-")}-` });
  try {
    const [home, workspace, data] = ["home", "workspace", "data"].map((name) => `${folder}/${name}`) as [
      string,
      string,
      string,
    ];
    for (const path of [home, workspace, data]) await Deno.mkdir(path);
    const laid = { ...files, [agent.rulesFile]: RULES };
    for (const [path, content] of Object.entries(laid)) {
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
      await Deno.writeFile(`${workspace}/${path}`, bytes);
    }
    await using provider = await startProvider({
      model: planModel(plans, agent.tools),
      failures,
      windowTokens,
    });
    await using gateway = through
      ? await startGateway(provider, { data, workspace, windowTokens })
      : undefined;
    let target = Promise.resolve(gateway?.url ?? provider.url);
    let requestCount = 0;
    await using tap = startTap(() => {
      if (++requestCount === scenario.restartsBefore && gateway) target = gateway.restart();
      return target;
    });
    const given = {
      HOME: home,
      TMPDIR: folder,
      ...proxies("http://127.0.0.1:9"),
      NO_PROXY: "127.0.0.1,localhost",
      ...agent.quiet,
      ...await agent.configure({ home, workspace, url: tap.url, windowTokens }),
    };
    const { entry } = agent;
    const addresses = { url: tap.url, chat: provider.url, messages: provider.url };
    using copy = entry.takes && entry.file && copyFile(entry.file(given), addresses);
    const settingsFor = [entry.settingsFor?.(addresses, given), copy && entry.takes?.(copy.path)];
    const args = settingsFor.flatMap((part) => part?.args ?? []);
    const env = Object.assign({}, given, ...settingsFor.map((part) => part?.environment));
    const ended: Ended[] = [];
    for (const [at, { prompt, interruptedBy, image }] of scenario.actions.entries()) {
      const run = (command: Command) =>
        runProgram({ ...command, args: [...args, ...command.args] }, {
          cwd: workspace,
          env,
          ...(interruptedBy && { interruptedBy }),
        });
      if (prompt === "compact") ended.push(await agent.compact!({ home, workspace, run }));
      else if (typeof prompt === "string") {
        ended.push(
          await run(
            agent.prompt(prompt, {
              isFirst: at === 0,
              home,
              ...(image && { image: `${workspace}/${image}` }),
            }),
          ),
        );
      } else if ("parallel" in prompt) {
        if (agent.prepare) await run(agent.prepare);
        const runs = prompt.parallel.map((text, at) =>
          run(agent.prompt(text, { isFirst: true, home, conversation: `conversation-${at}` }))
        );
        ended.push(...await Promise.all(runs));
      } else ended.push(await run(agent.converse!(prompt, { home, workspace })));
    }
    await inspect?.(home);
    const ledger = gateway &&
      await (await fetch(`${await target}/tare/v1/ledger`, { headers: ownerOf(data) })).json();
    return {
      files: await filesNextTo(workspace, laid),
      ended,
      calls: provider.calls,
      others: provider.others,
      exchanges: tap.exchanges,
      ...(ledger && { ledger }),
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function proxies(url: string): Record<string, string> {
  return Object.fromEntries(
    ["http_proxy", "https_proxy"].flatMap((name) => [[name, url], [name.toUpperCase(), url]]),
  );
}

async function startGateway(
  { url }: Provider,
  { data, workspace, windowTokens }: {
    readonly data: string;
    readonly workspace: string;
    readonly windowTokens: number;
  },
): Promise<{ readonly url: string; readonly restart: () => Promise<string> } & AsyncDisposable> {
  const upstreams = { "base-url": `${url}/v1`, "messages-url": url };
  const flags = { port: 0, data, workspace, ...upstreams, model: "gpt-5", window: windowTokens };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  let server = await startServerProcess(args);
  return {
    url: server.url,
    async restart() {
      await server.kill();
      server = await startServerProcess(args);
      return server.url;
    },
    async [Symbol.asyncDispose]() {
      await server.kill();
    },
  };
}

async function filesNextTo(
  folder: string,
  given: Scenario["files"],
): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const { name, isFile } of Deno.readDir(folder)) {
    if (isFile && !Object.hasOwn(given, name)) files[name] = await Deno.readTextFile(`${folder}/${name}`);
  }
  return files;
}
