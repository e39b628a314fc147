import { join, resolve } from "@std/path";
import { gateway } from "@tare/gateway";
import { openaiModel } from "@tare/loop/openai";
import { loadTokenizer, type Tokenizer } from "@tare/messages/tiktoken";
import { chooseProfile, DEFAULT_PROVIDER, type PolicyOptions, profileNamed } from "@tare/planner";
import { isPageRequest, page } from "@tare/page";
import { agentHandler, allowedHosts, guard, isLoopback } from "@tare/server";
import { rehearsal, simulator } from "@tare/simulator";
import { openStore } from "@tare/store";
import { workspaceTools } from "@tare/tools";
import {
  type AgentModels,
  chatProfile,
  configuredModels,
  hasChatProvider,
  isRehearsed,
  priceOf,
} from "./agent_models.ts";
import { agentOrGateway, type BodyLimits } from "./agent_or_gateway.ts";
import type { Settings } from "./settings.ts";

/** What the server says at its start and in every answer's event stream while no provider is configured. */
export const REHEARSAL_NOTICE =
  "no language model is configured; a rehearsal model that only follows fixed rules answers";

/** Largest request bodies: prompts of others may hold pictures and recordings. */
const LIMITS: BodyLimits = { agentBytes: 10 * 2 ** 20, gatewayBytes: 128 * 2 ** 20 };

/** A server that listens. */
export interface RunningServer {
  readonly url: string;
  /** What to tell the person who started it. */
  readonly greeting: string;
  /** Cancels what runs and stops listening. */
  readonly close: () => Promise<void>;
}

/**
 * Starts the agent server, and without a configured provider a rehearsal provider beside it.
 *
 * @throws {RangeError} if host and port can't be listened on, or other machines can reach them and no token is set.
 * @throws {StoreError} if the sessions in the data folder can't be opened.
 */
export async function startServer(settings: Settings, log: (line: string) => void): Promise<RunningServer> {
  const { host, token, corsOrigins } = settings;
  if (token === undefined && !isLoopback(host)) {
    throw new RangeError(
      `Cannot start: TARE_HOST is ${
        JSON.stringify(host)
      }, which other machines can reach, so TARE_TOKEN must be set to ` +
        "a token that requests then must carry; or listen on 127.0.0.1.",
    );
  }
  const workspace = resolve(settings.workspace);
  const store = await openStore(join(settings.data, "tare.db"));
  const tokenizer = lazily(() =>
    loadTokenizer(settings.model === undefined ? {} : { model: settings.model })
  );
  const { off, windowTokens, coldAfterMinutes } = settings;
  const provider = isRehearsed(settings)
    ? startRehearsal(tokenizer, settings)
    : { ...configuredModels(settings), close: () => Promise.resolve() };
  const countTokens = async () => (await tokenizer()).count;
  const onError = (error: unknown) =>
    log(error instanceof Error ? error.stack ?? error.message : String(error));
  const {
    policy,
    truncateTokens,
    alwaysFull,
    historyBudgetTokens,
    protectTokens,
    minBytes,
    pruneAt,
    summariseAt,
  } = settings;
  const prompts: PolicyOptions = {
    policy,
    mechanisms: {
      context: !off.includes("context"),
      prune: !off.includes("prune"),
      schemas: !off.includes("schemas"),
      truncate: !off.includes("truncate"),
    },
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
  const agent = agentHandler({
    defaultModel: provider.model ?? "none",
    model: provider.ask,
    profile: provider.profile,
    price: priceOf(settings, provider.profile),
    windowTokens,
    ...prompts,
    tools: workspaceTools({
      workspace,
      ...(settings.path !== undefined && { shell: { env: { PATH: settings.path } } }),
    }),
    store,
    countTokens,
    maxBodyBytes: LIMITS.agentBytes,
    onError,
    ...(provider.notice !== undefined && { notice: provider.notice }),
  });
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL } = settings;
  // Other agents ask for other models, and others speak Messages too and cache in their own way.
  const chatRules = (model: string) => chatProfile(settings, model);
  const messagesRules = (model: string) => chooseProfile({ model, baseUrl: settings.messagesUrl });
  const chat = {
    baseURL,
    ...(apiKey !== undefined && { apiKey }),
    profile: chatRules,
    price: priceOf(settings, chatRules),
    windowTokens,
  };
  const messages = {
    // This address names the server, the other one the API.
    baseURL: `${settings.messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(settings.messagesKey !== undefined && { apiKey: settings.messagesKey }),
    profile: messagesRules,
    price: priceOf(settings, messagesRules),
  };
  const answer = agentOrGateway({
    agent,
    gateway: gateway({
      // The rehearsal provider is nobody's upstream.
      upstreams: { ...(hasChatProvider(settings) && { chat, responses: chat }), messages },
      clientKeys: token === undefined,
      ...prompts,
      countTokens,
      recall: settings.recall,
      control: settings.control,
      maxBodyBytes: LIMITS.gatewayBytes,
      onError,
    }),
    limits: LIMITS,
  });
  const fetch = guard(async (request) => page(request) ?? await answer(request), {
    hosts: allowedHosts(host, settings.allowedHosts),
    origins: corsOrigins,
    ...(token !== undefined && { token }),
    isPublic: (request) => isPageRequest(request) || agent.isPublic(request),
    onError,
  });
  const server = await listen(settings, fetch).catch(async (error) => {
    await provider.close();
    await store.close();
    throw error;
  });
  // Loading takes a second or two. It starts once requests are answered, and only the first turn waits for it.
  tokenizer().catch((error) => log(`Cannot load the token counter: ${error}`));

  const url = address(server.addr);
  return {
    url,
    greeting: greet(url, { provider, workspace, settings }),
    async close() {
      await agent.close();
      await server.shutdown();
      await provider.close();
      await store.close();
    },
  };
}

/** What a server serves, a line each, and how to point an agent at it. */
function greet(
  url: string,
  { provider: { model, notice, address, profile }, workspace, settings }: {
    readonly provider: Provider;
    readonly workspace: string;
    readonly settings: Settings;
  },
): string {
  const { apiKey, baseUrl: at = DEFAULT_PROVIDER.baseURL, messagesKey, messagesUrl, off, policy } = settings;
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
    }: ANTHROPIC_BASE_URL=${url} claude`,
    `profile    ${profile(model ?? "").name}${model === undefined ? ", or that of the model asked for" : ""}`,
    `page       ${url}/: talk, see where the tokens went and what the model sees`,
    ...(policy === "planner" ? [] : [`policy     ${policy}`]),
    ...(off.length > 0 ? [`off        ${off.join(", ")}`] : []),
  ].join("\n");
}

/** Who answers the agent. */
interface Provider extends AgentModels {
  /** What every turn says first. */
  readonly notice?: string;
  readonly close: () => Promise<void>;
}

/** The rehearsal provider: a real HTTP server on loopback, so that the wire format is the real one. */
function startRehearsal(tokenizer: () => Promise<Tokenizer>, settings: Settings): Provider {
  const profile = settings.profileFile?.profile ?? profileNamed(settings.profile ?? DEFAULT_PROVIDER.profile);
  const provider = lazily(async () =>
    simulator({ model: { rehearsal: rehearsal() }, profile, tokenizer: await tokenizer() })
  );
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => await (await provider()).fetch(request),
  );
  const baseURL = `${address(server.addr)}/v1`;
  return {
    model: "rehearsal",
    ask: (model) => openaiModel({ model, baseURL }),
    address: () => baseURL,
    profile: () => profile,
    notice: REHEARSAL_NOTICE,
    close: () => server.shutdown(),
  };
}

async function listen({ host, port }: Settings, fetch: (request: Request) => Promise<Response>) {
  try {
    return await Deno.serve({ hostname: host, port, onListen() {} }, fetch);
  } catch (cause) {
    const reason = cause instanceof Deno.errors.AddrInUse
      ? "another program listens there; TARE_PORT takes another port, or 0 for a free one"
      : `${(cause as Error).message}; TARE_HOST and TARE_PORT say where`;
    throw new RangeError(
      `Cannot start: TARE_HOST is ${JSON.stringify(host)} and TARE_PORT is ${port}: ${reason}.`,
      {
        cause,
      },
    );
  }
}

function address({ hostname, port }: Deno.NetAddr): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** Makes a value when it is first asked for; if that fails, the next one who asks tries again. */
function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () =>
    value ??= make().catch((error) => {
      value = undefined;
      throw error;
    });
}
