import { resolve } from "@std/path";
import { forgetServer, listModels, noteOwnerPort, noteServer, settingsDigests } from "@tare/cli/parts";
import { CacheKeepAlive } from "@tare/session";
import { keepAliveUsdOfToday } from "@tare/session/internal/report";
import { type MetricRegistry, Telemetry } from "@tare/session/telemetry";
import { gateway, type HttpGateway } from "@tare/gateway";
import {
  type AgentModels,
  configuredModels,
  hasChatProvider,
  isDemo,
  priceOf,
  type ServerProfile,
  serverProfile,
  upstreamsOf,
} from "./providers.ts";
import type { McpSdk } from "@tare/tools/mcp";
import type { Sandbox } from "@tare/tools/sandbox";
import { type CountTokens, sampledCount } from "@tare/messages";
import { countingImages } from "@tare/messages/internal";
import { page } from "@tare/page";
import { DEFAULT_PROVIDER, proposedModels } from "@tare/planner/internal";
import { agentHandler, type HttpAgent } from "@tare/server";
import { allowedHosts, isLoopback } from "@tare/server/internal";
import type { PolicyOptions } from "@tare/planner/policies";
import { loadTokenizer } from "@tare/tiktoken";
import { type OpenData, openData } from "./data/open_data.ts";
import { greet } from "./greeting.ts";
import { lazily } from "./lazily.ts";
import { ANSWER_GRACE_MS, listenAsSet, reachable, serverUrl } from "./listen.ts";
import INSTRUCTIONS from "./prompt/instructions.md" with { type: "text" };
import { type InstructionPlaces, realPath } from "@tare/tools/internal/instructions";
import { offlineDemo } from "./offline_demo.ts";
import type { Settings } from "./settings/settings.ts";
import { type OpenWorkspace, openWorkspace } from "./workspace.ts";

const LIMITS = { agentBytes: 10 * 2 ** 20, gatewayBytes: 32 * 2 ** 20, sessions: 1_000_000 };

const RETENTION_DAYS = 30;

/** Storage limit of metrics of other agents' conversations if their content isn't stored. */
const METRICS_MIB = 256;

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;

const NO_SANDBOX = { why: "the server wasn't started by start.ts" };

/** Optional parts, which are loaded only by servers that need them. */
export interface Parts {
  /** Loads the client of MCP servers. Default: MCP isn't available. */
  readonly mcpSdk?: () => Promise<McpSdk>;
  /** Sandbox of commands and MCP servers, or the reason for its absence. Default: none. */
  readonly sandbox?: Sandbox | { readonly why: string } | undefined;
  readonly places?: InstructionPlaces;
  /** Port of the last start, reused if free and none is set. Default: none. */
  readonly lastPort?: number | undefined;
  /** Whether the greeting may contain the owner's key. Default: false. */
  readonly showsKey?: boolean;
  readonly maxConnections?: number | undefined;
  /** Variables that the settings were read from, recorded as digests. Default: none. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Whether the server outlives the command that started it. Default: false. */
  readonly runsAlone?: boolean | undefined;
  /** Variables of `environment` that settings files set. Default: none. */
  readonly stored?: readonly string[] | undefined;
  readonly triggers?: PolicyOptions["triggers"];
}

export interface RunningServer {
  readonly url: string;
  readonly greeting: string;
  /**
   * Stops the server. With `suspends`, turns continue on the next server of the sessions; otherwise they end as
   * interrupted.
   */
  readonly close: (options?: { readonly suspends?: boolean }) => Promise<void>;
}

/**
 * Starts the agent server; without a provider an offline demo model answers.
 *
 * @throws {RangeError} if the address isn't available, or other machines can reach it and no token is set.
 * @throws {StoreError} if the sessions can't be opened.
 */
export async function startServer(
  settings: Settings,
  log: (line: string) => void,
  {
    mcpSdk,
    showsKey = false,
    places,
    lastPort,
    maxConnections,
    triggers,
    sandbox: found = NO_SANDBOX,
    environment = {},
    runsAlone = false,
    stored = [],
  }: Parts = {},
): Promise<RunningServer> {
  refuseUnsafe(settings, mcpSdk !== undefined);
  const { token, keepAlive: keepAliveBudget, expireAfterDays } = settings;
  const data = resolve(settings.data);
  const onError = (error: unknown) =>
    log(error instanceof Error ? error.stack ?? error.message : String(error));
  const opened = await openData(settings, { log, onError });
  const { store, keys, lagMs } = opened;
  const tokenizer = lazily(() =>
    loadTokenizer(settings.model === undefined ? {} : { model: settings.model })
  );
  const countTokens = lazily(async () => countingImages(sampledCount((await tokenizer()).count)));
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL } = settings;
  const probe = hasChatProvider(settings) ? serverProfile({ baseURL, apiKey }) : undefined;
  const provider = isDemo(settings) ? offlineDemo(settings, tokenizer) : configuredModels(settings, probe);
  const metricRegistry = settings.metrics === "off"
    ? undefined
    : (await import("@tare/session/internal/prometheus")).prometheus({ onError });
  const keepAlive = new CacheKeepAlive({
    now: store.now,
    budgetUsdPerDay: keepAliveBudget === "off" ? 0 : keepAliveBudget,
    spentUsd: await keepAliveUsdOfToday(store),
    onError,
  });
  const prompts = promptOptions(settings, triggers);
  const shared: Shared = { store, keys, lagMs, countTokens, metricRegistry, keepAlive, prompts, onError };
  const httpGateway = gatewayOf(settings, { ...shared, probe });
  const workspace = openWorkspace(settings, {
    owner: opened.owner,
    sandbox: "by" in found ? found : undefined,
    ...{ places, mcpSdk, log, onError },
  });
  const instance = crypto.randomUUID();
  const agent = agentOf(settings, { ...shared, provider, workspace, httpGateway, instance, sandbox: found });
  const server = await listenAsSet(settings, { fetch: agent.fetch, lastPort, maxConnections, onError }).catch(
    async (error) => {
      await workspace.close();
      await opened.close();
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
  // Takes a second or two, after the server listens; only the first turn waits for it.
  tokenizer().catch((error) => log(`Cannot load the token counter: ${error}`));
  workspace.start();
  // The agent's first session needs the window.
  if (settings.model !== undefined) await probe?.probed();
  if (token === undefined) await noteOwnerPort(data, server.addr.port).catch(onError);
  const noted = {
    folder: realPath(resolve(settings.workspace)),
    url: reachable(server.addr),
    instance,
    pid: Deno.pid,
    settings: settingsDigests(environment, instance),
    stored,
    runsAlone,
  };
  await noteServer(data, noted).catch(onError);
  const url = serverUrl(server.addr);
  const signIn = showsKey && token === undefined ? opened.ownKey : undefined;
  return {
    url,
    greeting: greet(url, { provider, settings, sandbox: found, signIn }),
    async close({ suspends = false } = {}) {
      clearInterval(hourly);
      await forgetServer(data, noted).catch(onError);
      const leaveWithinMs = suspends ? settings.endWithinSeconds * 1000 : undefined;
      const closed = agent.close({ leaveWithinMs }).then(workspace.close);
      await Promise.all([server.close({ graceMs: ANSWER_GRACE_MS + (leaveWithinMs ?? 0) }), closed]);
      await httpGateway.close();
      await probe?.close();
      await Promise.all([expiring, watching]);
      await opened.close();
    },
  };
}

interface Shared extends Pick<OpenData, "store" | "keys" | "lagMs"> {
  readonly countTokens: () => Promise<CountTokens>;
  readonly metricRegistry: MetricRegistry | undefined;
  readonly keepAlive: CacheKeepAlive;
  readonly prompts: PolicyOptions;
  readonly onError: (error: unknown) => void;
}

function gatewayOf(
  settings: Settings,
  { probe, ...shared }: Shared & { readonly probe: ServerProfile | undefined },
): HttpGateway {
  const { store, keys, lagMs, countTokens, metricRegistry, keepAlive, prompts, onError } = shared;
  const { captureContent = false, expireAfterDays = RETENTION_DAYS, gatewayStoreMiB, maxDataMiB = Infinity } =
    settings;
  return gateway({
    planning: prompts,
    telemetry: new Telemetry("@tare/gateway", { captureContent, metricRegistry }),
    upstreams: upstreamsOf(settings, probe),
    ...{ store, keys, countTokens, onError },
    forward: settings.forward,
    recall: !settings.off.includes("recall"),
    holdout: settings.holdout,
    ...(settings.keepAlive !== "off" && { keepAlive }),
    limits: { bodyBytes: LIMITS.gatewayBytes },
    retention: {
      content: gatewayStoreMiB > 0,
      maxAgeMs: () => expireAfterDays * DAY_MS + lagMs(),
      // Leaves room for the agent's sessions in the same file.
      maxBytes: Math.min(gatewayStoreMiB || METRICS_MIB, maxDataMiB / 4) * 2 ** 20,
    },
  });
}

interface AgentParts extends Shared {
  readonly provider: AgentModels;
  readonly workspace: OpenWorkspace;
  readonly httpGateway: HttpGateway;
  readonly instance: string;
  readonly sandbox: Sandbox | { readonly why: string };
}

function agentOf(settings: Settings, parts: AgentParts): HttpAgent {
  const { store, keys, countTokens, metricRegistry, keepAlive, prompts, onError } = parts;
  const { provider, workspace, httpGateway, instance, sandbox } = parts;
  const { captureContent = false, metrics, webhookHosts: hosts, maxRunningTurns, maxSteps } = settings;
  const { model: defaultModel, ask: model, ...models } = provider;
  return agentHandler({
    ...{ store, keys, onError },
    tools: workspace.options.tools,
    prompt: prompts,
    instructions: settings.instructions?.text ?? INSTRUCTIONS.trim(),
    models: {
      ...{ ...models, defaultModel, model, countTokens },
      ...(!isDemo(settings) && {
        list: async () =>
          proposedModels(
            await listModels({
              OPENAI_API_KEY: settings.apiKey,
              OPENAI_BASE_URL: settings.baseUrl,
              ANTHROPIC_API_KEY: settings.messagesKey,
              ANTHROPIC_BASE_URL: settings.messagesUrl,
            }),
          ),
      }),
      price: priceOf(settings, provider.profile),
      effort: settings.effort,
    },
    approvals: {
      rules: settings.approvals?.rules ?? [],
      workspace: resolve(settings.workspace),
      unattended: settings.unattended,
      unknownOutcome: settings.unknownOutcome,
    },
    limits: { maxSessions: LIMITS.sessions, maxRunningTurns, turn: { maxSteps } },
    workspace: {
      ...workspace.options.workspace,
      sandbox: "by" in sandbox ? { by: sandbox.by, domains: sandbox.domains } : { ...sandbox, domains: [] },
    },
    telemetry: new Telemetry("@tare/server", { captureContent, metricRegistry }),
    ...(hosts.length > 0 && { webhooks: { hosts, connect: connectTls } }),
    gateway: httpGateway,
    http: {
      hosts: allowedHosts(settings.host, settings.allowedHosts),
      origins: settings.corsOrigins,
      guests: settings.token === undefined,
      maxBodyBytes: LIMITS.agentBytes,
      ...(metricRegistry && { metrics: { metricRegistry, isOpen: metrics === "open" } }),
      files: page,
      instance,
      forwardsTo: {
        ...(hasChatProvider(settings) && { chat: settings.baseUrl ?? DEFAULT_PROVIDER.baseURL }),
        messages: settings.messagesUrl,
      },
    },
    advanced: {
      ...workspace.options.advanced,
      delegates: settings.delegate,
      keepAlive: settings.keepAlive === "off" ? "off" : keepAlive,
    },
  });
}

/** @throws {RangeError} if other machines could connect without a token, or MCP isn't available. */
function refuseUnsafe({ host, token, mcp }: Settings, hasMcp: boolean): void {
  if (token === undefined && !isLoopback(host)) {
    throw new RangeError(
      `Cannot start: TARE_HOST is ${JSON.stringify(host)}, which other machines can reach. ` +
        "Set TARE_TOKEN, which requests must then carry, or listen on 127.0.0.1.",
    );
  }
  if (mcp !== undefined && !hasMcp) {
    throw new RangeError(
      "Cannot start: TARE_MCP is set, but main.ts has no MCP client. Start the server with start.ts.",
    );
  }
}

/** Connects to one of a host's addresses by TLS. */
export async function connectTls(
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

function promptOptions(
  { policy, off, truncateTokens }: Pick<Settings, "policy" | "off" | "truncateTokens">,
  triggers: PolicyOptions["triggers"] = {},
): PolicyOptions {
  return {
    policy: policy === "classic" ? "classic" : "planner",
    mechanisms: {
      context: !off.includes("context"),
      prune: !off.includes("prune"),
      schemas: !off.includes("schemas"),
      truncate: !off.includes("truncate"),
      ...(off.includes("references") && { references: false }),
      normalization: !off.includes("normalization"),
    },
    evict: policy === "lossless" || policy === "eager" ? policy : "balanced",
    truncateTokens,
    triggers,
  };
}
