import { join, resolve } from "@std/path";
import { OWNER_FILE } from "@tare/cli/parts";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import type { Sandbox } from "@tare/tools/sandbox";
import { encodingOfModel } from "@tare/tiktoken";
import { hasChatProvider } from "./agent_models.ts";
import type { AgentProvider } from "./rehearsal_provider.ts";
import type { Settings } from "./settings/settings.ts";

/** Returns what a server serves, a line each, and how to direct an agent to it. */
export function greet(
  url: string,
  { provider: { model, notice, address, profile }, settings, sandbox, signIn }: {
    readonly provider: AgentProvider;
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
      : `agent      ${notice ?? `${model} at ${address(model)}`}; works in ${
        resolve(settings.workspace)
      }: deno task ask "…"`,
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
