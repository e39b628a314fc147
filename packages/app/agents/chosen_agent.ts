import { delimiter } from "node:path";
import { DEFAULT_PROVIDER } from "@tare/planner";
import { join } from "@std/path";
import type { AgentInfo } from "../agent_client.ts";
import { isFile } from "../settings/option.ts";
import type { AgentEntry, Behind, Environment } from "./agents.ts";

/** An agent that is to be run, and what it is told. */
export interface ChosenAgent {
  /** Its name; nothing of a program that isn't known. */
  readonly name?: string;
  readonly entry: Pick<
    AgentEntry,
    "title" | "program" | "needs" | "told" | "file" | "takes" | "loginProvider"
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
  const folders = /[\\/]/.test(program) ? [""] : PATH.split(delimiter);
  const all = folders.flatMap((folder) => ENDINGS.map((ending) => join(folder, program + ending)));
  const found = all.find(isFile);
  if (found !== undefined) return found;
  throw new Error(`Cannot start ${title}: PATH has no program ${program}. Install it, and try again.`);
}

/**
 * What an agent behind this server goes by.
 *
 * @throws {Error} if the server doesn't pass on what the agent needs.
 */
export function behind(
  { title, needs }: Pick<AgentEntry, "title" | "needs">,
  { url, passesOn = {}, login }: {
    readonly url: string;
    readonly passesOn: AgentInfo["passesOn"];
    /** The provider that the agent's login is for. */
    readonly login?: string | undefined;
  },
): Behind {
  const { chat, messages = "" } = passesOn;
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
