import { DELIMITER, join } from "@std/path";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import type { AgentInfo } from "../agent_client.ts";
import { isFile } from "../option.ts";
import { type AgentEntry, AGENTS, type Behind, type Environment } from "./agents.ts";
import { isSameAddress, type OwnProviders } from "./own_providers.ts";

export function knownAgent(name: string): AgentEntry | undefined {
  return Object.hasOwn(AGENTS, name) ? AGENTS[name] : undefined;
}

/** Endings of programs, where the system goes by them. */
const ENDINGS = Deno.build.os === "windows" ? [".exe", ".cmd", ".bat"] : [""];

/** Returns the path of an agent's program. @throws {Error} if it isn't installed. */
export function programOf(
  { title, program }: Pick<AgentEntry, "title" | "program">,
  { PATH = "" }: Environment,
): string {
  // It may be a path already.
  const folders = /[\\/]/.test(program) ? [""] : PATH.split(DELIMITER);
  const all = folders.flatMap((folder) => ENDINGS.map((ending) => join(folder, program + ending)));
  const found = all.find(isFile);
  if (found !== undefined) return found;
  throw new Error(`Cannot start ${title}: PATH has no program ${program}. Install it, and try again.`);
}

/** Variables of a server that name where it forwards to. */
export const PASSES_TO = { chat: "OPENAI_BASE_URL", messages: "ANTHROPIC_BASE_URL" } as const;

/**
 * Returns the addresses of an agent behind this server. Only providers that its own settings name get its credentials.
 *
 * @throws {Error} if the server doesn't forward what the agent needs, or elsewhere than its own settings name.
 */
export function behind(
  { title, needs }: Pick<AgentEntry, "title" | "needs">,
  { url, passesOn = {}, own: { addresses, login } }: {
    readonly url: string;
    readonly passesOn: AgentInfo["passesOn"];
    readonly own: OwnProviders;
  },
): Behind {
  const { chat, messages = "" } = passesOn;
  const refuse = (why: string) => {
    throw new Error(`Cannot put ${title} behind the server at ${url}: ${why}`);
  };
  const remedy = (protocol: keyof typeof PASSES_TO, address: string) =>
    `Start it with ${PASSES_TO[protocol]}=${address}, or end it: then tare run starts one that does.`;
  for (const { protocol, address, place, isFixed } of addresses) {
    const to = passesOn[protocol];
    if (isSameAddress(address, url)) {
      if (to === undefined || !isSameAddress(to, url)) continue;
      refuse(
        `${place} names that server, which would pass on to itself. Have it name the provider, or nothing.`,
      );
    }
    if (isFixed) {
      refuse(
        `${place} names ${address}, which outranks whatever it is told. ` +
          `Have that file name ${url}, and start the server with ${PASSES_TO[protocol]}=${address}.`,
      );
    }
    if (to !== undefined && isSameAddress(address, to) || protocol === "chat" && login !== undefined) {
      continue;
    }
    const what = protocol === "chat" ? "chat completions and responses" : "Messages";
    refuse(
      `${place} names ${address}, and the server ` +
        `${to === undefined ? `passes no ${what} on` : `passes ${what} on to ${to}`}. ${
          remedy(protocol, address)
        }`,
    );
  }
  const wanted = login ?? (chat === undefined ? DEFAULT_PROVIDER.baseURL : chat);
  if (needs === "chat" && chat !== wanted) {
    const state = chat === undefined
      ? "it passes no chat completions and responses on"
      : `it passes responses on to ${chat}, and the login is for ${wanted}`;
    refuse(`${state}. ${remedy("chat", wanted)}`);
  }
  return { url, ...(chat !== undefined && { chat }), messages };
}
