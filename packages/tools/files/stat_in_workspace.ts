import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { basename, dirname } from "@std/path";
import type { ToolContext } from "@tare/messages";
import { distance } from "fastest-levenshtein";
import { systemCode, ToolRefusal } from "../define_tool.ts";
import type { WorkspacePath } from "./resolve_in_workspace.ts";
import { walk } from "./walk.ts";

/** Entries looked at for a path like the one that is missing. */
const MAX_CANDIDATES = 10_000;
const MAX_SUGGESTIONS = 3;
const MIN_SIMILARITY = 0.5;

/** Returns what exists at a place. @throws {ToolRefusal} if nothing does, with similar paths. */
export async function statInWorkspace(place: WorkspacePath, context: ToolContext): Promise<Stats> {
  try {
    return await lstat(place.absolute);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    const alike = await similarPaths(place, context);
    const hint = alike.length === 0 ? "Look for it with list_files." : `Did you mean ${alike.join(" or ")}?`;
    throw new ToolRefusal(`it does not exist. ${hint}`);
  }
}

/** Like {@linkcode statInWorkspace}. @throws {ToolRefusal} also if it isn't a regular file: a pipe may never end. */
export async function statFile(place: WorkspacePath, context: ToolContext): Promise<Stats> {
  return regular(await statInWorkspace(place, context), "See what is in it with list_files.");
}

/** Returns what the system reports of a regular file. @throws {ToolRefusal} for anything else. */
export function regular(info: Stats, ifFolder: string): Stats {
  if (info.isDirectory()) throw new ToolRefusal(`it is a folder. ${ifFolder}`);
  if (!info.isFile()) throw new ToolRefusal("it is a pipe, a socket or a device, not a regular file.");
  return info;
}

/** Paths with the same name first, then those whose names are most alike. */
async function similarPaths(place: WorkspacePath, context: ToolContext): Promise<string[]> {
  const name = basename(place.relative).toLowerCase();
  const folder = dirname(place.relative);
  const found: { path: string; score: number }[] = [];
  let seen = 0;
  const top = { ...place, absolute: place.root, relative: "." };
  for await (const { relative } of walk(top, { context })) {
    if (++seen > MAX_CANDIDATES) break;
    const likeness = similarity(basename(relative).toLowerCase(), name);
    if (likeness < MIN_SIMILARITY) continue;
    found.push({ path: relative, score: likeness + 0.1 * similarity(dirname(relative), folder) });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, MAX_SUGGESTIONS).map(({ path }) => path);
}

/** How alike two texts are, from 0 to 1: the share of the longer one that stays when one becomes the other. */
export function similarity(a: string, b: string): number {
  const length = Math.max(a.length, b.length);
  return length === 0 ? 1 : 1 - distance(a, b) / length;
}
