import { agentClient, type AgentInfo, type ServerAddress } from "../agent_client.ts";
import { counted } from "@tare/server/internal/format";
import type { AgentEntry, Environment, GatewayAddresses } from "./agents.ts";
import { gatewayAddresses, programOf } from "./chosen_agent.ts";
import { entryIn } from "./file_entries.ts";
import { ownProviders } from "./own_providers.ts";
import { fileText, textBeforeWrap } from "./wrapping.ts";

export interface Finding {
  readonly state: "right" | "wrong" | "not known";
  readonly text: string;
}

export interface Installation {
  readonly name: string;
  readonly entry: AgentEntry;
  readonly server: ServerAddress;
  readonly environment: Environment;
  /** Model to request one word from. Default: none. */
  readonly model?: string | undefined;
}

const right = (text: string): Finding => ({ state: "right", text });
const wrong = (text: string): Finding => ({ state: "wrong", text });
const unknown = (text: string): Finding => ({ state: "not known", text });

export async function checkInstallation(installation: Installation): Promise<readonly Finding[]> {
  const { server: { url, token }, entry } = installation;
  const client = agentClient(url, token);
  const { forwardsTo, workspace } = await client.agent();
  return [
    await versionOf(installation),
    right(`The server at ${url} is running for ${workspace}.`),
    ...await passes(installation, forwardsTo),
    ...await called(entry, client),
  ];
}

async function versionOf({ entry, environment }: Installation): Promise<Finding> {
  try {
    const program = programOf(entry, environment);
    const { stdout } = await new Deno.Command(program, { args: ["--version"], stdin: "null" }).output();
    const [version = "of an unknown version"] = /\d+(\.\d+)+/.exec(new TextDecoder().decode(stdout)) ?? [];
    return version === entry.tested
      ? right(`${entry.title} ${version} is tested.`)
      : unknown(`${entry.title} is ${version}; the tested version is ${entry.tested}.`);
  } catch (error) {
    return wrong((error as Error).message);
  }
}

async function passes(
  { entry, name, server: { url }, environment, model }: Installation,
  forwardsTo: AgentInfo["forwardsTo"],
): Promise<Finding[]> {
  let at: GatewayAddresses;
  try {
    const own = ownProviders(entry, { environment, read: textBeforeWrap(name, environment) });
    at = gatewayAddresses(entry, { url, forwardsTo, own });
  } catch (error) {
    return [wrong((error as Error).message)];
  }
  const isChat = entry.needs === "chat";
  const to = isChat ? forwardsTo?.chat : forwardsTo?.messages;
  return [
    right(`It forwards ${isChat ? "chat completions and responses" : "Messages"} to ${to}.`),
    configured(entry, { name, at, environment }),
    await keyPasses(at, { isChat, environment, model }),
  ];
}

function configured(
  { title, file: given }: AgentEntry,
  { name, at, environment }: {
    readonly name: string;
    readonly at: GatewayAddresses;
    readonly environment: Environment;
  },
): Finding {
  const byRun = `${title} uses this server only if tare run ${name} starts it.`;
  if (!given) return unknown(byRun);
  const { paths, format, entries } = given(environment);
  const found = paths.map((path) => ({ path, text: fileText(path) })).find(({ text }) => text !== null);
  if (!found?.text) return unknown(byRun);
  const { path, text } = found;
  const wanted = entries(at, text);
  const differing = wanted.filter((entry) => entryIn(text, format, entry.path) !== entry.value);
  if (wanted.length > 0 && differing.length === 0) {
    return right(`${path} redirects ${title} to this server.`);
  }
  if (differing.length === wanted.length) return unknown(`${byRun} ${path} doesn't redirect it.`);
  const names = differing.map(({ path, value }) => `${path.join(".")} isn't ${value}`).join(", ");
  return wrong(
    `${path} redirects ${title} to this server only in part: ${names}. Run tare unwrap ${name}, then tare wrap ${name}.`,
  );
}

/** Returns the headers with the environment's key for a provider; undefined without a key. */
export function accessHeaders(
  isChat: boolean,
  { OPENAI_API_KEY, ANTHROPIC_API_KEY }: Environment,
): Readonly<Record<string, string>> | undefined {
  if (isChat) return OPENAI_API_KEY ? { authorization: `Bearer ${OPENAI_API_KEY}` } : undefined;
  return ANTHROPIC_API_KEY
    ? { "x-api-key": ANTHROPIC_API_KEY, "anthropic-version": "2023-06-01" }
    : undefined;
}

async function keyPasses(
  { url }: GatewayAddresses,
  { isChat, environment, model }: {
    readonly isChat: boolean;
    readonly environment: Environment;
    readonly model: string | undefined;
  },
): Promise<Finding> {
  const headers = accessHeaders(isChat, environment);
  if (!headers) {
    return unknown(
      "The environment has no key. A login is forwarded in the same way; its next call shows whether it works.",
    );
  }
  if (model === undefined) {
    const { ok, status } = await request(`${url}/v1/models`, { headers });
    if (!ok && status !== 401 && status !== 403) {
      return unknown(
        `The provider doesn't list its models (${status}), so the key can't be checked without a call.`,
      );
    }
    return ok
      ? right(
        "The key works: the provider lists its models. --model NAME also checks streaming.",
      )
      : wrong(`The provider rejects the key with status ${status}.`);
  }
  const messages = [{ role: "user", content: "Say OK." }];
  const { ok, status, type, text } = await request(`${url}/v1/${isChat ? "chat/completions" : "messages"}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ model, stream: true, messages, ...(!isChat && { max_tokens: 16 }) }),
  });
  if (!ok) return wrong(`${model} fails: ${status} ${text.slice(0, 300)}`);
  return type.startsWith("text/event-stream") && /^data:/m.test(text)
    ? right(`The key works, and ${model} streams.`)
    : wrong(`${model} doesn't stream: it replies with ${type}.`);
}

async function request(url: string, init: RequestInit) {
  const response = await fetch(url, init);
  const { ok, status, headers } = response;
  return { ok, status, type: headers.get("content-type") ?? "", text: await response.text() };
}

async function called(
  { title, userAgents }: AgentEntry,
  client: ReturnType<typeof agentClient>,
): Promise<Finding[]> {
  const { rows } = await client.spend({ by: "session", limit: 1_000 });
  const own = rows.filter(({ session }) => userAgents.includes(session?.agent ?? ""));
  const [dearest] = own;
  if (!dearest) return [unknown(`${title} has made no calls through this server yet.`)];
  const sum = (name: "calls" | "errors" | "promptTokens" | "cachedTokens") =>
    own.reduce((sum, row) => sum + row[name], 0);
  const share = (100 * sum("cachedTokens") / Math.max(1, sum("promptTokens"))).toFixed(0);
  const calls = counted(sum("calls"), "call");
  const { misses } = await client.misses({ session: dearest.key });
  const unmarked = misses.find(({ cause }) => cause === "not_marked");
  return [
    sum("errors") === 0
      ? right(`${calls} went through, with ${share} % of the prompt tokens read from the cache.`)
      : wrong(`${calls} went through, and ${counted(sum("errors"), "other")} failed.`),
    unmarked
      ? wrong(
        `Its cache breakpoints don't cover ${counted(unmarked.tokens, "token")}. ${unmarked.remedy}`,
      )
      : right("Its prompts have cache breakpoints, or need none."),
  ];
}
