import { join, resolve } from "@std/path";
import { gateway } from "@tare/gateway";
import { ModelError } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import type { Model } from "@tare/messages";
import { loadTokenizer, type Tokenizer } from "@tare/messages/tiktoken";
import {
  chooseProfile,
  DEFAULT_PROVIDER,
  type PolicyOptions,
  type Profile,
  profileNamed,
} from "@tare/planner";
import { agentHandler, allowedHosts, guard, isLoopback } from "@tare/server";
import { rehearsal, simulator } from "@tare/simulator";
import { openStore } from "@tare/store";
import { workspaceTools } from "@tare/tools";
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
  const provider = settings.apiKey === undefined && settings.baseUrl === undefined
    ? startRehearsal(
      tokenizer,
      settings.profileFile?.profile ?? profileNamed(settings.profile ?? DEFAULT_PROVIDER.profile),
    )
    : configuredProvider(settings);
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
    model: (model) => provider.model === undefined ? noModel : openaiModel({ model, ...provider.access }),
    profile: provider.profile,
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
  const upstream = {
    baseURL: DEFAULT_PROVIDER.baseURL,
    ...provider.access,
    // Other agents ask for other models.
    profile: (model: string) => profileOf(settings, model),
    windowTokens,
  };
  const messages = {
    // This address names the server, the other one the API.
    baseURL: `${settings.messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(settings.messagesKey !== undefined && { apiKey: settings.messagesKey }),
    // Others speak the format too, and cache in their own way.
    profile: (model: string) => chooseProfile({ model, baseUrl: settings.messagesUrl }),
  };
  const answer = agentOrGateway({
    agent,
    gateway: gateway({
      // The rehearsal provider is nobody's upstream.
      upstreams: { ...(!provider.isRehearsal && { chat: upstream, responses: upstream }), messages },
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
  const fetch = guard(answer, {
    hosts: allowedHosts(host, settings.allowedHosts),
    origins: corsOrigins,
    ...(token !== undefined && { token }),
    isPublic: agent.isPublic,
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
  { provider, workspace, settings: { apiKey, messagesKey, messagesUrl, off, policy } }: {
    readonly provider: Provider;
    readonly workspace: string;
    readonly settings: Settings;
  },
): string {
  const { model, notice, isRehearsal, access, profile } = provider;
  const at = access.baseURL ?? DEFAULT_PROVIDER.baseURL;
  const keysOf = (key: string | undefined, variable: string) =>
    key === undefined ? "with your agent's own key" : `with the key in ${variable}`;
  return [
    `Tare listens on ${url}`,
    model === undefined
      ? "agent      off: TARE_MODEL names the model that it asks"
      : `agent      ${notice ?? `${model} at ${at}`}; works in ${workspace}: deno task ask "…"`,
    isRehearsal
      ? "gateway    off: OPENAI_API_KEY or OPENAI_BASE_URL names the provider that it passes requests on to"
      : `gateway    to ${at}, ${keysOf(apiKey, "OPENAI_API_KEY")}: OPENAI_BASE_URL=${url}/v1 your-agent`,
    `messages   to ${messagesUrl}, ${
      keysOf(messagesKey, "ANTHROPIC_API_KEY")
    }: ANTHROPIC_BASE_URL=${url} claude`,
    `profile    ${profile.name}${model === undefined ? ", or that of the model asked for" : ""}`,
    ...(policy === "planner" ? [] : [`policy     ${policy}`]),
    ...(off.length > 0 ? [`off        ${off.join(", ")}`] : []),
  ].join("\n");
}

/** Where the requests of the agent go. */
interface Provider {
  /** The agent's model. Default: there is none, and no agent. */
  readonly model?: string;
  /** Whether it only follows fixed rules. */
  readonly isRehearsal: boolean;
  readonly profile: Profile;
  readonly access: { readonly apiKey?: string; readonly baseURL?: string };
  /** What every turn says first. */
  readonly notice?: string;
  readonly close: () => Promise<void>;
}

function configuredProvider(settings: Settings): Provider {
  const { apiKey, baseUrl, model } = settings;
  const access = {
    ...(apiKey !== undefined && { apiKey }),
    ...(baseUrl !== undefined && { baseURL: baseUrl }),
  };
  return {
    ...(model !== undefined && { model }),
    isRehearsal: false,
    profile: profileOf(settings, model),
    access,
    close: () => Promise.resolve(),
  };
}

/** The cache rules and prices of a model at the provider; of all its models if none is named. */
function profileOf(
  { baseUrl = DEFAULT_PROVIDER.baseURL, profile: name, profileFile }: Settings,
  model?: string,
): Profile {
  return profileFile?.profile ?? chooseProfile({
    baseUrl,
    ...(model !== undefined && { model }),
    ...(name !== undefined && { name }),
  });
}

/** What the agent says where only the gateway has a provider. */
// deno-lint-ignore require-yield
async function* noModel(): ReturnType<Model> {
  throw new ModelError(
    "no_such_model",
    "Cannot ask a model: TARE_MODEL isn't set, so that there is only a gateway.",
  );
}

/** The rehearsal provider: a real HTTP server on loopback, so that the wire format is the real one. */
function startRehearsal(tokenizer: () => Promise<Tokenizer>, profile: Profile): Provider {
  const provider = lazily(async () =>
    simulator({ model: { rehearsal: rehearsal() }, profile, tokenizer: await tokenizer() })
  );
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => await (await provider()).fetch(request),
  );
  return {
    model: "rehearsal",
    isRehearsal: true,
    profile,
    access: { baseURL: `${address(server.addr)}/v1` },
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
