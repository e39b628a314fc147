import { DELIMITER, join } from "@std/path";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import type { AgentInfo } from "../agent_client.ts";
import { isFile } from "../option.ts";
import type { AgentEntry, Behind, Environment } from "./agents.ts";
import { isSameAddress, type OwnAddress } from "./own_addresses.ts";

/** An agent that is to be run, and what it is told. */
export interface ChosenAgent {
  /** Its name; nothing of a program that isn't known. */
  readonly name?: string;
  readonly entry: Pick<
    AgentEntry,
    "title" | "program" | "needs" | "told" | "file" | "takes" | "own" | "loginProvider"
  >;
  readonly args: readonly string[];
}

/** Endings of programs, where the system goes by them. */
const ENDINGS = Deno.build.os === "windows" ? [".exe", ".cmd", ".bat"] : [""];

/**
 * The path of an agent's program.
 *
 * @throws {Error} if it isn't installed.
 */
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

/** By which variable a server learns where it passes on to. */
export const PASSES_TO = { chat: "OPENAI_BASE_URL", messages: "ANTHROPIC_BASE_URL" } as const;

/**
 * What an agent behind this server goes by.
 *
 * @throws {Error} if the server doesn't pass on what the agent needs, or not to where its own settings say.
 */
export function behind(
  { title, needs }: Pick<AgentEntry, "title" | "needs">,
  { url, passesOn = {}, login, own = [] }: {
    readonly url: string;
    readonly passesOn: AgentInfo["passesOn"];
    /** The provider that the agent's login is for. */
    readonly login?: string | undefined;
    /** Addresses that its own settings name: nobody else gets its credentials. */
    readonly own?: readonly OwnAddress[];
  },
): Behind {
  const { chat, messages = "" } = passesOn;
  for (const { protocol, address, place, isFixed } of own) {
    const to = passesOn[protocol];
    if (isSameAddress(address, url)) {
      if (to === undefined || !isSameAddress(to, url)) continue;
      throw new Error(
        `Cannot put ${title} behind the server at ${url}: ${place} names that server, which would pass on to itself. ` +
          "Have it name the provider, or nothing.",
      );
    }
    if (isFixed) {
      throw new Error(
        `Cannot put ${title} behind the server at ${url}: ${place} names ${address}, which outranks whatever it is told. ` +
          `Have that file name ${url}, and start the server with ${PASSES_TO[protocol]}=${address}.`,
      );
    }
    if (to !== undefined && isSameAddress(address, to) || protocol === "chat" && login !== undefined) {
      continue;
    }
    const what = protocol === "chat" ? "chat completions and responses" : "Messages";
    throw new Error(
      `Cannot put ${title} behind the server at ${url}: ${place} names ${address}, and the server ` +
        `${to === undefined ? `passes no ${what} on` : `passes ${what} on to ${to}`}. Start it with ` +
        `${PASSES_TO[protocol]}=${address}, or end it: then tare run starts one that does.`,
    );
  }
  const wanted = login ?? (chat === undefined ? DEFAULT_PROVIDER.baseURL : chat);
  if (needs === "chat" && chat !== wanted) {
    const state = chat === undefined
      ? "it passes no chat completions and responses on"
      : `it passes responses on to ${chat}, and the login is for ${wanted}`;
    throw new Error(
      `Cannot put ${title} behind the server at ${url}: ${state}. Start it with OPENAI_BASE_URL=${wanted}, or end it: ` +
        "then tare run starts one that does.",
    );
  }
  return { url, ...(chat !== undefined && { chat }), messages };
}
