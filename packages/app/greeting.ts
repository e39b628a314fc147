import { join, resolve } from "@std/path";
import { OWNER_FILE } from "@tare/cli/parts";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import type { Sandbox } from "@tare/tools/sandbox";
import { encodingOfModel } from "@tare/tiktoken";
import { type AgentModels, hasChatProvider } from "./providers.ts";
import type { Settings } from "./settings/settings.ts";

/** Returns the services of a server, a line each, and how to connect an agent. */
export function greet(
  url: string,
  { provider: { model, notice, address, profile }, settings, sandbox, signIn }: {
    readonly provider: AgentModels;
    readonly settings: Settings;
    readonly sandbox: Sandbox | { readonly why: string };
    /** The owner's key, unless it must be hidden. */
    readonly signIn: string | undefined;
  },
): string {
  const { apiKey, baseUrl = DEFAULT_PROVIDER.baseURL, mcp, messagesKey, messagesUrl, off, policy } = settings;
  const { approvals, archive, database, keepAlive, token } = settings;
  const workspace = resolve(settings.workspace);
  const data = resolve(settings.data);
  const keysOf = (key: string | undefined, variable: string) =>
    key === undefined ? "with your agent's own key" : `with the key in ${variable}`;
  const isEstimated = model !== undefined && notice === undefined && !encodingOfModel(model);
  /** Lines by label; empty ones are omitted. */
  const lines: Readonly<Record<string, string | false | undefined>> = {
    agent: model === undefined
      ? "off: set TARE_MODEL to the agent's model"
      : `${notice ?? `${model} at ${address(model)}`}; works in ${workspace}: deno task ask "…"`,
    gateway: hasChatProvider(settings)
      ? `to ${baseUrl}, ${keysOf(apiKey, "OPENAI_API_KEY")}: OPENAI_BASE_URL=${url}/v1 your-agent`
      : "off: set OPENAI_API_KEY or OPENAI_BASE_URL",
    messages: `to ${messagesUrl}, ${keysOf(messagesKey, "ANTHROPIC_API_KEY")}: ` +
      `ANTHROPIC_BASE_URL=${url} ENABLE_TOOL_SEARCH=true claude`,
    profile: profile(model ?? "").name + (model === undefined ? ", or that of the requested model" : ""),
    tokens: isEstimated &&
      `estimated: the tokenizer of ${model} is unknown, so that of OpenAI's newer models is used`,
    page: `for conversations, token usage and the model's prompt: ${url}/` +
      (signIn === undefined ? "" : `#key=${signIn}`),
    owner: token === undefined
      ? `signs in with the key in ${join(data, OWNER_FILE)}; tare page opens the page with it`
      : "signs in with TARE_TOKEN",
    sandbox: "by" in sandbox
      ? `commands run in ${sandbox.by}, ${networkOf(sandbox)}; access outside it needs approval`
      : `none, because ${sandbox.why}: commands run with your permissions`,
    mcp: mcp && (mcp.servers.map(({ name }) => name).join(", ") || "no servers"),
    approvals: approvals &&
      (approvals.path ? `by the rules in ${approvals.path}` : "none: every call runs without approval"),
    policy: policy !== "planner" && policy,
    keepAlive: keepAlive !== "off" && keepAlive > 0 &&
      `cache keep-alive for idle conversations, for at most $${keepAlive} a day`,
    off: off.join(", "),
    sessions: `in ${database?.label ?? data}`,
    archive: archive && `large texts in s3://${archive.bucket}/${archive.prefix}`,
  };
  const printed = Object.entries(lines).filter(([, text]) => text);
  return [`Tare listens on ${url}`, ...printed.map(([label, text]) => `${label.padEnd(11)}${text}`)].join(
    "\n",
  );
}

function networkOf({ domains }: Sandbox): string {
  return domains.length === 0 ? "without network access" : `with network access to ${domains.join(", ")}`;
}
