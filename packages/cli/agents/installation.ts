import { agentClient, type AgentInfo, type ServerAddress } from "../agent_client.ts";
import { counted } from "@tare/server/internal/format";
import type { AgentEntry, Behind, Environment } from "./agents.ts";
import { behind, programOf } from "./chosen_agent.ts";
import { entryIn } from "./file_entries.ts";
import { ownProviders } from "./own_providers.ts";
import { fileText, textBeforeWrap } from "./wrapping.ts";

/** Outcome of one check. */
export interface Finding {
  readonly state: "right" | "wrong" | "not known";
  readonly text: string;
}

export interface Installation {
  readonly name: string;
  readonly entry: AgentEntry;
  readonly server: ServerAddress;
  readonly environment: Environment;
  /** Model to request one word from. Default: none, at no cost. */
  readonly model?: string | undefined;
}

const right = (text: string): Finding => ({ state: "right", text });
const wrong = (text: string): Finding => ({ state: "wrong", text });
const unknown = (text: string): Finding => ({ state: "not known", text });

/** Checks whether an installed agent uses a server, with all of its settings. */
export async function checkInstallation(installation: Installation): Promise<readonly Finding[]> {
  const { server: { url, token }, entry } = installation;
  const client = agentClient(url, token);
  const { passesOn, workspace } = await client.agent();
  return [
    await versionOf(installation),
    right(`The server at ${url} answers, for ${workspace}.`),
    ...await passes(installation, passesOn),
    ...await called(entry, client),
  ];
}

async function versionOf({ entry, environment }: Installation): Promise<Finding> {
  try {
    const program = programOf(entry, environment);
    const { stdout } = await new Deno.Command(program, { args: ["--version"], stdin: "null" }).output();
    const [version = "of no known version"] = /\d+(\.\d+)+/.exec(new TextDecoder().decode(stdout)) ?? [];
    return version === entry.tested
      ? right(`${entry.title} is ${version}, which is tested.`)
      : unknown(`${entry.title} is ${version}; tested is ${entry.tested}.`);
  } catch (error) {
    return wrong((error as Error).message);
  }
}

/** Checks what the server forwards, the agent's configuration, and its key. */
async function passes(
  { entry, name, server: { url }, environment, model }: Installation,
  passesOn: AgentInfo["passesOn"],
): Promise<Finding[]> {
  let at: Behind;
  try {
    const own = ownProviders(entry, { environment, read: textBeforeWrap(name, environment) });
    at = behind(entry, { url, passesOn, own });
  } catch (error) {
    return [wrong((error as Error).message)];
  }
  const isChat = entry.needs === "chat";
  const to = isChat ? passesOn?.chat : passesOn?.messages;
  return [
    right(`It passes ${isChat ? "chat completions and responses" : "Messages"} on to ${to}.`),
    configured(entry, { name, at, environment }),
    await keyPasses(at, { isChat, environment, model }),
  ];
}

function configured(
  { title, file: given }: AgentEntry,
  { name, at, environment }: {
    readonly name: string;
    readonly at: Behind;
    readonly environment: Environment;
  },
): Finding {
  const byRun = `${title} asks its provider itself unless tare run ${name} starts it.`;
  if (!given) return unknown(byRun);
  const { paths, format, entries } = given(environment);
  const found = paths.map((path) => ({ path, text: fileText(path) })).find(({ text }) => text !== null);
  if (!found?.text) return unknown(byRun);
  const { path, text } = found;
  const wanted = entries(at, text);
  const differing = wanted.filter((entry) => entryIn(text, format, entry.path) !== entry.value);
  if (wanted.length > 0 && differing.length === 0) {
    return right(`${path} says that ${title} asks this server.`);
  }
  if (differing.length === wanted.length) return unknown(`${byRun} ${path} names no server of Tare's.`);
  const names = differing.map(({ path, value }) => `${path.join(".")} isn't ${value}`).join(", ");
  return wrong(
    `${path} says only in part that ${title} asks this server: ${names}. tare unwrap and wrap ${name} mend it.`,
  );
}

/** Returns headers with the key in the environment, if there is one. */
function access(isChat: boolean, { OPENAI_API_KEY, ANTHROPIC_API_KEY }: Environment) {
  if (isChat) return OPENAI_API_KEY ? { authorization: `Bearer ${OPENAI_API_KEY}` } : undefined;
  return ANTHROPIC_API_KEY
    ? { "x-api-key": ANTHROPIC_API_KEY, "anthropic-version": "2023-06-01" }
    : undefined;
}

async function keyPasses(
  { url }: Behind,
  { isChat, environment, model }: {
    readonly isChat: boolean;
    readonly environment: Environment;
    readonly model: string | undefined;
  },
): Promise<Finding> {
  const headers = access(isChat, environment);
  if (!headers) {
    return unknown(
      "No key stands in the environment: a login passes through like one, as the next call shows.",
    );
  }
  if (model === undefined) {
    const { ok, status } = await asked(`${url}/v1/models`, { headers });
    if (!ok && status !== 401 && status !== 403) {
      return unknown(
        `The provider lists no models (${status}), so that the key can't be tried without a call.`,
      );
    }
    return ok
      ? right(
        "The key passes: the provider lists its models. --model NAME asks one, and shows that it streams.",
      )
      : wrong(`The provider doesn't take the key: it answers ${status}.`);
  }
  const messages = [{ role: "user", content: "Say OK." }];
  const { ok, status, type, text } = await asked(`${url}/v1/${isChat ? "chat/completions" : "messages"}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ model, stream: true, messages, ...(!isChat && { max_tokens: 16 }) }),
  });
  if (!ok) return wrong(`${model} doesn't answer: ${status} ${text.slice(0, 300)}`);
  return type.startsWith("text/event-stream") && /^data:/m.test(text)
    ? right(`The key passes, and ${model} streams.`)
    : wrong(`${model} answers whole where a stream was asked for, as ${type}.`);
}

async function asked(url: string, init: RequestInit) {
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
  if (!dearest) return [unknown(`${title} hasn't called a model through this server yet.`)];
  const sum = (name: "calls" | "errors" | "promptTokens" | "cachedTokens") =>
    own.reduce((sum, row) => sum + row[name], 0);
  const share = (100 * sum("cachedTokens") / Math.max(1, sum("promptTokens"))).toFixed(0);
  const calls = counted(sum("calls"), "call");
  const { misses } = await client.misses({ session: dearest.key });
  const unmarked = misses.find(({ cause }) => cause === "not_marked");
  return [
    sum("errors") === 0
      ? right(`${calls} came through, ${share} % of their prompts from the cache.`)
      : wrong(`${calls} came through, and ${counted(sum("errors"), "other")} failed.`),
    unmarked
      ? wrong(
        `It marks too little for the cache: ${counted(unmarked.tokens, "token")}. ${unmarked.remedy}`,
      )
      : right("What it sends is marked for the cache, or needs no marks."),
  ];
}
