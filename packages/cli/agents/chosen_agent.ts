import { DELIMITER, join } from "@std/path";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import type { AgentInfo } from "../agent_client.ts";
import { isFile } from "../option.ts";
import { type AgentEntry, AGENTS, type Environment, type GatewayAddresses } from "./agents.ts";
import { isSameAddress, type OwnProviders } from "./own_providers.ts";

export function knownAgent(name: string): AgentEntry | undefined {
  return Object.hasOwn(AGENTS, name) ? AGENTS[name] : undefined;
}

const ENDINGS = Deno.build.os === "windows" ? [".exe", ".cmd", ".bat"] : [""];

/** Returns the path of an agent's program. @throws {Error} if it isn't installed. */
export function programOf(
  { title, program }: Pick<AgentEntry, "title" | "program">,
  { PATH = "" }: Environment,
): string {
  const folders = /[\\/]/.test(program) ? [""] : PATH.split(DELIMITER);
  const all = folders.flatMap((folder) => ENDINGS.map((ending) => join(folder, program + ending)));
  const found = all.find(isFile);
  if (found !== undefined) return found;
  throw new Error(`Cannot start ${title}: the program ${program} is not in PATH. Install it, and retry.`);
}

export const PASSES_TO = { chat: "OPENAI_BASE_URL", messages: "ANTHROPIC_BASE_URL" } as const;

/**
 * Returns the addresses of an agent that uses this server. Its credentials are only sent to providers of its own
 * settings.
 *
 * @throws {Error} if the server doesn't forward what the agent needs, or forwards to another provider.
 */
export function gatewayAddresses(
  { title, needs }: Pick<AgentEntry, "title" | "needs">,
  { url, forwardsTo = {}, own: { addresses, login } }: {
    readonly url: string;
    readonly forwardsTo: AgentInfo["forwardsTo"];
    readonly own: OwnProviders;
  },
): GatewayAddresses {
  const { chat, messages = "" } = forwardsTo;
  const refuse = (why: string) => {
    throw new Error(`Cannot connect ${title} to the server at ${url}: ${why}`);
  };
  const remedy = (protocol: keyof typeof PASSES_TO, address: string) =>
    `Start it with ${PASSES_TO[protocol]}=${address}, or stop it: then tare run starts a suitable one.`;
  for (const { protocol, address, place, isFixed } of addresses) {
    const to = forwardsTo[protocol];
    if (isSameAddress(address, url)) {
      if (to === undefined || !isSameAddress(to, url)) continue;
      refuse(
        `${place} names that server, which would forward to itself. Name the provider there, or nothing.`,
      );
    }
    if (isFixed) {
      refuse(
        `${place} sets ${address}, which overrides all other settings. ` +
          `Set ${url} there, and start the server with ${PASSES_TO[protocol]}=${address}.`,
      );
    }
    if (to !== undefined && isSameAddress(address, to) || protocol === "chat" && login !== undefined) {
      continue;
    }
    const what = protocol === "chat" ? "chat completions and responses" : "Messages";
    refuse(
      `${place} names ${address}, and the server ` +
        `${to === undefined ? `doesn't forward ${what}` : `forwards ${what} to ${to}`}. ${
          remedy(protocol, address)
        }`,
    );
  }
  const wanted = login ?? (chat === undefined ? DEFAULT_PROVIDER.baseURL : chat);
  if (needs === "chat" && chat !== wanted) {
    const state = chat === undefined
      ? "it doesn't forward chat completions and responses"
      : `it forwards responses to ${chat}, and the login is for ${wanted}`;
    refuse(`${state}. ${remedy("chat", wanted)}`);
  }
  return { url, ...(chat !== undefined && { chat }), messages };
}
