// deno-lint-ignore-file no-console
import { join, resolve } from "@std/path";
import { createHash } from "node:crypto";
import { gateway } from "@tare/gateway";
import { openaiModel } from "@tare/loop/openai";
import { countingPictures, sampledCount } from "@tare/messages";
import { encodingOfModel, loadTokenizer, type Tokenizer } from "@tare/tiktoken";
import { chooseProfile, listWindow, profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER, searchesTools } from "@tare/planner/internal";
import type { PolicyOptions } from "@tare/planner/policies";
import { page } from "@tare/page";
import { agentHandler, allowedHosts, isLoopback } from "@tare/server";
import { rehearsal, simulator } from "@tare/simulator";
import { Telemetry } from "@tare/conversation/telemetry";
import { programTool } from "@tare/loop/programs";
import { BackgroundCommands, openCheckpoints, type Sandbox, workspaceTools } from "@tare/loop/tools";
import { clearWorkspaces } from "@tare/loop/internal";
import { type McpSdk, mcpServers } from "@tare/loop/mcp";
import { Keys, type Store, StoreError, Warmth } from "@tare/conversation";
import { type Days, sumsOf } from "@tare/conversation/report";
import {
  type AgentModels,
  chatProfile,
  configuredModels,
  hasChatProvider,
  isRehearsed,
  priceOf,
  serverProfile,
  USUAL_WINDOW,
} from "./agent_models.ts";
import { type ConnectionLimits, connectionLimits, listenHttp } from "./listener/listen_http.ts";
import { expiryClock } from "./data/expiry_clock.ts";
import { openSettingsStore } from "./data/open_store.ts";
import { OWNER_FILE } from "./data/find_owner_key.ts";
import { noteOwnerPort, ownerKey } from "./data/owner_key.ts";
import { forgetServer, noteServer, USUAL_PORT } from "./data/noted_server.ts";
import { findPlaces, type InstructionPlaces, skillsOutside, workplaceOf } from "./prompt/workplace.ts";
import INSTRUCTIONS from "./prompt/instructions.md" with { type: "text" };
import { skillTool } from "./prompt/skill_tool.ts";
import { realPath } from "./settings/real_path.ts";
import { handedOver } from "./handed_over.ts";
import { readSettings, type Settings } from "./settings/settings.ts";
import { whenLeft } from "./launchers.ts";
import { sayAlive } from "./supervise.ts";
import { shownText } from "./terminal/shown_text.ts";

/** What the server says at its start and in every answer's event stream while no provider is configured. */
export const REHEARSAL_NOTICE =
  "no language model is configured; a rehearsal model that only follows fixed rules answers";

/** Largest request bodies: prompts of others may hold pictures and recordings. */
const LIMITS = { agentBytes: 10 * 2 ** 20, gatewayBytes: 32 * 2 ** 20 };

/** Days after which what is kept of other agents' conversations goes, unless the settings say otherwise. */
const KEPT_DAYS = 30;

/** What figures of other agents' conversations may take where nothing else of them is kept. */
const FIGURES_MIB = 256;

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

/** How long answers that are under way may take when the server ends, in milliseconds. */
const GRACE_MS = 2000;

/** What only some servers need, and others don't install. */
interface Parts {
  /** Loads what speaks with MCP servers. Default: there may be none. */
  readonly mcpSdk?: () => Promise<McpSdk>;
  /** The sandbox that commands and the programs of MCP servers run in, or why there is none. */
  readonly sandbox?: Sandbox | { readonly why: string };
  /** Where stands what sessions are told of their workplace. Default: they aren't. */
  readonly places?: InstructionPlaces;
  /** Where it listens if nobody says where and it is free: who knows its address finds it again. Default: nobody knows one. */
  readonly lastPort?: number | undefined;
  /** Whether the greeting holds the owner's key: only a person reads it. Default: no. */
  readonly showsKey?: boolean;
}

/** A server that listens. */
export interface RunningServer {
  readonly url: string;
  /** What to tell the person who started it. */
  readonly greeting: string;
  /** Stops listening. Turns end, as interrupted, or are left to whoever has the sessions next. */
  readonly close: (options?: { readonly leaves?: boolean }) => Promise<void>;
}

/**
 * Starts the agent server, and without a configured provider a rehearsal provider beside it.
 *
 * @throws {RangeError} if host and port can't be listened on, or other machines can reach them and no token is set.
 * @throws {StoreError} if the sessions can't be opened.
 */
export async function startServer(
  settings: Settings,
  log: (line: string) => void,
  { mcpSdk, showsKey = false, places, lastPort, sandbox: found = { why: "nobody has looked for one" } }:
    Parts = {},
): Promise<RunningServer> {
  const { host, token, corsOrigins } = settings;
  if (token === undefined && !isLoopback(host)) {
    throw new RangeError(
      `Cannot start: TARE_HOST is ${
        JSON.stringify(host)
      }, which other machines can reach, so TARE_TOKEN must be set to ` +
        "a token that requests then must carry; or listen on 127.0.0.1.",
    );
  }
  if (settings.mcp !== undefined && mcpSdk === undefined) {
    throw new RangeError(
      "Cannot start: TARE_MCP is set, and main.ts knows nothing of MCP; start with start.ts.",
    );
  }
  const workspace = resolve(settings.workspace);
  const data = resolve(settings.data);
  const instance = crypto.randomUUID();
  const { maxSessions, maxRunningTurns, maxDataMiB = Infinity, expireAfterDays, gatewayStoreMiB } = settings;
  const sandbox = "by" in found ? found : undefined;
  const { store, place } = await openSettingsStore(settings, log);
  const { owner, ended } = place;
  if (ended > 0) {
    log(`Ended ${ended} process${ended > 1 ? "es" : ""} that commands of an earlier server left running.`);
  }
  const [newest] = await store.listSessions({ limit: 1 });
  const lagMs = expiryClock(data, { newestMs: newest?.createdAtMs, now: store.now, log });
  const onError = (error: unknown) =>
    log(error instanceof Error ? error.stack ?? error.message : String(error));
  const own = token ?? await ownerKey(data).catch(async (error) => {
    await store.close();
    place.close();
    throw error;
  });
  const keys = new Keys({ store, owners: [own], onError });
  // Turns that go on after a restart are paid for by keys that nobody has shown yet.
  await keys.list();
  const tokenizer = lazily(() =>
    loadTokenizer(settings.model === undefined ? {} : { model: settings.model })
  );
  const { off, windowTokens, coldAfterMinutes } = settings;
  const limits = await connectionLimits(settings);
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL } = settings;
  const asked = hasChatProvider(settings) ? serverProfile({ baseURL, apiKey }) : undefined;
  const provider = isRehearsed(settings)
    ? startRehearsal(tokenizer, { settings, limits, onError })
    : { ...configuredModels(settings, asked), close: () => Promise.resolve() };
  const countTokens = lazily(async () => countingPictures(sampledCount((await tokenizer()).count)));
  const {
    policy,
    forget,
    truncateTokens,
    alwaysFull,
    historyBudgetTokens,
    protectTokens,
    minBytes,
    pruneAt,
    summariseAt,
  } = settings;
  const pingUsdToday = await pingUsdOfToday(store);
  const prompts: PolicyOptions = {
    policy,
    mechanisms: {
      context: !off.includes("context"),
      prune: !off.includes("prune"),
      schemas: !off.includes("schemas"),
      truncate: !off.includes("truncate"),
      ...(off.includes("references") && { references: false }),
      notation: !off.includes("notation"),
    },
    forget,
    truncateTokens,
    alwaysFull,
    triggers: {
      historyBudgetTokens,
      protectTokens,
      minBytes,
      pruneAt,
      summariseAt,
      ...(coldAfterMinutes !== undefined && { coldAfterMs: coldAfterMinutes * 60_000 }),
    },
  };
  const path = settings.path === undefined ? {} : { PATH: settings.path };
  const mcp = mcpSdk && settings.mcp &&
    mcpServers(settings.mcp.servers, {
      sdk: mcpSdk,
      cwd: workspace,
      env: path,
      owner,
      sandbox,
      onWarning: log,
    });
  const { captureContent = false, metrics } = settings;
  // Who has nobody to read them shall not wait for what keeps them.
  const figures = metrics === "off" ? undefined : (await import("./prometheus.ts")).prometheus({ onError });
  // Other agents ask for other models, and others speak Messages too and cache in their own way.
  const chatRules = (model: string) => chatProfile(settings, model, asked?.name);
  const messagesRules = (model: string) => chooseProfile({ model, baseUrl: settings.messagesUrl });
  const chat = {
    baseURL,
    ...(apiKey !== undefined && { apiKey }),
    profile: chatRules,
    price: priceOf(settings, chatRules),
    windowTokens: windowTokens ?? ((model: string) => asked?.windowTokens(model) ?? listWindow(model)),
    assumesWindow: (model: string) => asked?.windowTokens(model) === undefined,
  };
  const messages = {
    // This address names the server, the other one the API.
    baseURL: `${settings.messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(settings.messagesKey !== undefined && { apiKey: settings.messagesKey }),
    profile: messagesRules,
    price: priceOf(settings, messagesRules),
    windowTokens: windowTokens ?? listWindow,
    ...(settings.deferTools !== "auto" && {
      searchesTools: (model: string) => settings.deferTools === "on" && searchesTools({ model }),
    }),
  };
  const keepWarmUsdPerDay = settings.keepWarm === "off" ? 0 : settings.keepWarm;
  // One budget for both.
  const warmth = new Warmth({
    ...{ now: store.now, budgetUsdPerDay: keepWarmUsdPerDay, spentUsd: pingUsdToday, onError },
  });
  const passing = gateway({
    telemetry: new Telemetry("@tare/gateway", { captureContent, figures }),
    // The rehearsal provider is nobody's upstream.
    upstreams: { ...(hasChatProvider(settings) && { chat, responses: chat }), messages },
    keys,
    forward: settings.forward,
    ...prompts,
    countTokens,
    recall: settings.recall,
    control: settings.observe ? 1 : settings.control,
    ...(settings.keepWarm !== "off" && { warmth }),
    maxBodyBytes: LIMITS.gatewayBytes,
    store,
    keepsContent: gatewayStoreMiB > 0,
    keepMs: () => (expireAfterDays ?? KEPT_DAYS) * DAY_MS + lagMs(),
    // The agent's sessions must have room in the same file.
    keepBytes: Math.min(gatewayStoreMiB || FIGURES_MIB, maxDataMiB / 4) * 2 ** 20,
    onError,
  });
  // A data folder that somebody has chosen may serve another workspace tomorrow.
  // And several servers may have it at once: none sees what the others have under way.
  const name = createHash("sha256").update(`${owner}\n${realPath(workspace)}`).digest("hex").slice(0, 16);
  const checkpoints = openCheckpoints({
    workspace,
    hidden: data,
    folder: join(data, "undo", name),
    onError,
  });

  const background = new BackgroundCommands();
  const skills = places && skillTool(skillsOutside(places));
  const tools = [
    ...workspaceTools({
      workspace,
      hidden: data,
      shell: { owner, env: path, sandbox, background },
      ...(sandbox?.proxy && { web: { domains: sandbox.domains, socket: sandbox.proxy.socket } }),
    }),
    ...(skills ? [skills] : []),
  ];
  const shell = tools.find(({ definition }) => sandbox && definition.function.name === "shell");
  const agent = agentHandler({
    telemetry: new Telemetry("@tare/server", { captureContent, figures }),
    address: provider.address,
    ...(provider.model !== undefined && { defaultModel: provider.model }),
    passesOn: { ...(hasChatProvider(settings) && { chat: baseURL }), messages: settings.messagesUrl },
    workspace: realPath(workspace),
    instance,
    sandbox: "by" in found ? { by: found.by, domains: found.domains } : { why: found.why, domains: [] },
    model: provider.ask,
    profile: provider.profile,
    price: priceOf(settings, provider.profile),
    windowTokens: provider.windowTokens,
    assumesWindow: provider.assumesWindow,
    efforts: provider.efforts,
    ...(settings.effort !== undefined && { effort: settings.effort }),
    ...prompts,
    tools: [...tools, ...settings.programs ? [programTool()] : []],
    instructions: settings.instructions?.text ?? INSTRUCTIONS.trim(),
    ...(places && { workplace: workplaceOf({ places, hidden: realPath(data), shell }) }),
    ...(mcp && { toolSource: mcp }),
    delegates: settings.delegate,
    approvals: {
      rules: settings.approvals?.rules ?? [],
      workspace,
      unattended: settings.unattended,
      answerWithinMs: settings.answerWithinMinutes * 60_000,
    },
    unknownOutcome: settings.unknownOutcome,
    checkpoints,
    background,
    seesPictures: provider.seesPictures,
    store,
    keys,
    ...(settings.webhookHosts.length > 0 && {
      webhooks: { hosts: settings.webhookHosts, connect: connectAs },
    }),
    maxSessions,
    maxRunningTurns,
    limits: { maxSteps: settings.maxSteps },
    maxQueuedTurns: settings.maxQueuedTurns,
    countTokens,
    maxBodyBytes: LIMITS.agentBytes,
    keepWarm: settings.keepWarm === "off" ? "off" : warmth,
    gateway: passing,
    files: page,
    guard: {
      hosts: allowedHosts(host, settings.allowedHosts),
      origins: corsOrigins,
      guests: token === undefined,
    },
    onError,
    ...(provider.notice !== undefined && { notice: provider.notice }),
    ...(figures && { metrics: { figures, isOpen: metrics === "open" } }),
  });
  const server = await listen(settings, { fetch: agent.fetch, lastPort, limits, onError }).catch(
    async (error) => {
      await checkpoints.close();
      await provider.close();
      await store.close();
      place.close();
      throw error;
    },
  );
  const expire = async () => {
    if (expireAfterDays === undefined) return;
    await agent.expire(expireAfterDays * DAY_MS + lagMs()).catch(onError);
  };
  let expiring = expire();
  const watching = agent.attend().catch(onError);
  const hourly = setInterval(() => expiring = expire(), HOUR_MS);
  // Loading takes a second or two. It starts once requests are answered, and only the first turn waits for it.
  tokenizer().catch((error) => log(`Cannot load the token counter: ${error}`));
  mcp?.start();

  // The agent's first session shall know it; the gateway's sessions learn it when it is known.
  if (settings.model !== undefined) await asked?.asked();
  const url = address(server.addr);
  if (token === undefined) await noteOwnerPort(data, server.addr.port).catch(onError);
  const noted = { folder: realPath(workspace), url: reachable(server.addr), instance, pid: Deno.pid };
  await noteServer(data, noted).catch(onError);
  const signIn = showsKey && token === undefined ? own : undefined;
  return {
    url,
    greeting: greet(url, { provider, workspace, settings, sandbox: found, signIn }),
    async close({ leaves = false } = {}) {
      clearInterval(hourly);
      await forgetServer(data, noted).catch(onError);
      const leaveWithinMs = leaves ? settings.endWithinSeconds * 1000 : undefined;
      const closed = agent.close({ leaveWithinMs }).then(() => background.close()).then(() => mcp?.close())
        .then(clearWorkspaces).then(
          () => checkpoints.close(),
        );
      await Promise.all([server.close({ graceMs: GRACE_MS + (leaveWithinMs ?? 0) }), closed]);
      await passing.close();
      await asked?.close();
      await Promise.all([expiring, watching]);
      await provider.close();
      await keys.close();
      await store.close();
      place.close();
    },
  };
}

/** So many of the newest sessions are read for what pings cost today. */
const PINGED_SESSIONS = 1_000;

/** Returns what pings cost today in US dollars, as far as sessions that are kept tell. */
async function pingUsdOfToday(store: Store): Promise<number> {
  const all = (await store.listSessions({ limit: PINGED_SESSIONS })).map(({ totals }) =>
    (totals as { readonly days?: Days } | undefined)?.days ?? {}
  );
  return sumsOf.today(all, store.now()).pingUsd;
}

/** What a server serves, a line each, and how to point an agent at it. */
function greet(
  url: string,
  { provider: { model, notice, address, profile }, workspace, settings, sandbox, signIn }: {
    readonly provider: Provider;
    readonly workspace: string;
    readonly settings: Settings;
    readonly sandbox: Sandbox | { readonly why: string };
    /** The owner's key, if it may be shown. */
    readonly signIn: string | undefined;
  },
): string {
  const { apiKey, baseUrl: at = DEFAULT_PROVIDER.baseURL, mcp, messagesKey, messagesUrl, off, policy } =
    settings;
  const { keepWarm } = settings;
  const keysOf = (key: string | undefined, variable: string) =>
    key === undefined ? "with your agent's own key" : `with the key in ${variable}`;
  return [
    `Tare listens on ${url}`,
    model === undefined
      ? "agent      off: TARE_MODEL names the model that it asks"
      : `agent      ${notice ?? `${model} at ${address(model)}`}; works in ${workspace}: deno task ask "…"`,
    hasChatProvider(settings)
      ? `gateway    to ${at}, ${keysOf(apiKey, "OPENAI_API_KEY")}: OPENAI_BASE_URL=${url}/v1 your-agent`
      : "gateway    off: OPENAI_API_KEY or OPENAI_BASE_URL names the provider that it passes requests on to",
    `messages   to ${messagesUrl}, ${
      keysOf(messagesKey, "ANTHROPIC_API_KEY")
    }: ANTHROPIC_BASE_URL=${url} ENABLE_TOOL_SEARCH=true claude`,
    `profile    ${profile(model ?? "").name}${model === undefined ? ", or that of the model asked for" : ""}`,
    ...(model === undefined || notice !== undefined || encodingOfModel(model) ? [] : [
      `tokens     estimated: how ${model} cuts texts isn't known, and they are counted as OpenAI's newer models do`,
    ]),
    `page       to talk, see where the tokens went and what the model sees: ${url}/${
      signIn === undefined ? "" : `#key=${signIn}`
    }`,
    `owner      ${
      settings.token === undefined
        ? `signs in with the key in ${
          join(resolve(settings.data), OWNER_FILE)
        }; tare keys page shows the address`
        : "signs in with TARE_TOKEN"
    }`,
    "by" in sandbox
      ? `sandbox    commands run in one (${sandbox.by}), ${
        sandbox.domains.length === 0
          ? "without a network"
          : `with ${sandbox.domains.join(", ")} as their network`
      }; what leaves it is asked for`
      : `sandbox    none, because ${sandbox.why}: commands run with your rights`,
    ...(mcp === undefined
      ? []
      : [`mcp        ${mcp.servers.map(({ name }) => name).join(", ") || "no servers"}`]),
    ...(settings.approvals === undefined ? [] : [
      `approvals  ${
        settings.approvals.path === undefined
          ? "none: every call runs unasked"
          : `by the rules in ${settings.approvals.path}`
      }`,
    ]),
    ...(policy === "planner" ? [] : [`policy     ${policy}`]),
    ...(keepWarm !== "off" && keepWarm > 0
      ? [`warmth     idle conversations are kept in the provider's cache, for $${keepWarm} a day at most`]
      : []),
    ...(off.length > 0 ? [`off        ${off.join(", ")}`] : []),
    `sessions   in ${settings.database?.shown ?? resolve(settings.data)}`,
    ...(settings.archive
      ? [`archive    large texts in s3://${settings.archive.bucket}/${settings.archive.prefix}`]
      : []),
  ].join("\n");
}

/** Who answers the agent. */
interface Provider extends AgentModels {
  /** What every turn says first. */
  readonly notice?: string;
  readonly close: () => Promise<void>;
}

/** Connects with a host by TLS at one of its addresses. */
async function connectAs(
  { host, address, port }: { readonly host: string; readonly address: string; readonly port: number },
): Promise<Deno.TlsConn> {
  const connection = await Deno.connect({ hostname: address, port });
  try {
    return await Deno.startTls(connection, { hostname: host });
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** The rehearsal provider: a real HTTP server on loopback, so that the wire format is the real one. */
function startRehearsal(
  tokenizer: () => Promise<Tokenizer>,
  { settings, limits, onError }: Listening & { readonly settings: Settings },
): Provider {
  const profile = settings.profileFile?.profile ?? profileNamed(settings.profile ?? DEFAULT_PROVIDER.profile);
  const provider = lazily(async () =>
    simulator({ model: { rehearsal: rehearsal() }, profile, tokenizer: await tokenizer() })
  );
  const fetch = async (request: Request) => await (await provider()).fetch(request);
  const server = listenHttp(fetch, { hostname: "127.0.0.1", port: 0, limits, onError });
  const baseURL = `${address(server.addr)}/v1`;
  return {
    model: "rehearsal",
    ask: (model) => openaiModel({ model, baseURL }),
    efforts: () => [],
    seesPictures: () => false,
    address: () => baseURL,
    profile: () => profile,
    windowTokens: () => settings.windowTokens ?? USUAL_WINDOW,
    assumesWindow: () => settings.windowTokens === undefined,
    notice: REHEARSAL_NOTICE,
    close: () => server.close({ graceMs: GRACE_MS }),
  };
}

/** What the server's listener and the rehearsal provider's go by. */
interface Listening {
  readonly limits: ConnectionLimits;
  readonly onError: (error: unknown) => void;
}

async function listen(
  { host, port }: Settings,
  { fetch, lastPort = USUAL_PORT, ...listening }: Listening & {
    readonly fetch: (request: Request) => Promise<Response>;
    readonly lastPort?: number | undefined;
  },
) {
  const listenOn = (port: number) => listenHttp(fetch, { hostname: host, port, ...listening });
  try {
    if (port !== undefined) return await listenOn(port);
    for (const one of new Set([lastPort, USUAL_PORT])) {
      try {
        return await listenOn(one);
      } catch (error) {
        // There the server of another folder may listen, or the port may be another user's by now.
        if (one !== USUAL_PORT || error instanceof Deno.errors.AddrInUse) continue;
        throw error;
      }
    }
    return await listenOn(0);
  } catch (cause) {
    const reason = cause instanceof Deno.errors.AddrInUse
      ? "another program listens there; TARE_PORT takes another port, or 0 for a free one"
      : `${(cause as Error).message}; TARE_HOST and TARE_PORT say where`;
    throw new RangeError(
      `Cannot start: TARE_HOST is ${JSON.stringify(host)} and TARE_PORT is ${port ?? USUAL_PORT}: ${reason}.`,
      {
        cause,
      },
    );
  }
}

function address({ hostname, port }: Deno.NetAddr): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** The same, for programs of this machine. */
function reachable({ hostname, port }: Deno.NetAddr): string {
  return address({ transport: "tcp", port, hostname: LOOPBACK_OF[hostname] ?? hostname });
}

/** What reaches a server that listens on every address. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** Makes a value when it is first asked for; if that fails, the next one who asks tries again. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () =>
    value ??= make().catch((error) => {
      value = undefined;
      throw error;
    });
}

/** How much longer than its turns may take an orderly end may last, in milliseconds. */
const END_MS = 5000;

/** Within so many milliseconds a terminal's Ctrl-C has come from itself and from each process that passes it on. */
const CTRL_C_MS = 300;

/** Runs the agent server as this process: by its flags and environment, until it is told to end. */
export async function runServer(parts: Parts = {}): Promise<void> {
  try {
    const tell = (line: string) => console.error(shownText(line));
    const handed = await handedOver();
    const { environment, sandbox, lastPort } = handed;
    const showsKey = Deno.stdout.isTerminal();
    const settings = readSettings(Deno.args, environment);
    const places = handed.places ?? findPlaces(settings.workspace);
    const server = await startServer(settings, tell, {
      ...{ sandbox, showsKey, places, lastPort },
      ...parts,
    });
    let endsSince: number | undefined;
    const end = async (signal?: Deno.Signal) => {
      if (endsSince !== undefined) {
        const isSame = signal === "SIGINT" && performance.now() - endsSince < CTRL_C_MS;
        if (signal === undefined || isSame) return;
        Deno.exit(1);
      }
      endsSince = performance.now();
      // Who presses Ctrl-C wants it to stop.
      const leaves = signal !== "SIGINT";
      const limitMs = END_MS + (leaves ? settings.endWithinSeconds * 1000 : 0);
      setTimeout(() => {
        console.error(
          `Cannot end in order: something hangs after ${
            limitMs / 1000
          } seconds. What was acknowledged is stored.`,
        );
        Deno.exit(1);
      }, limitMs);
      await server.close({ leaves });
      Deno.exit(0);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      Deno.addSignalListener(signal, () => end(signal));
    }
    whenLeft(() => end());
    sayAlive();
    // Last: whoever has read it may end the server.
    console.log(server.greeting);
  } catch (error) {
    // Only what a person can mend is a sentence; anything else is a bug and shows its stack.
    if (!(error instanceof RangeError || error instanceof StoreError)) throw error;
    console.error(shownText(error.message));
    Deno.exit(1);
  }
}
