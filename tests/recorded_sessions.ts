import { fromFileUrl } from "@std/path";
import type { Recording } from "@tare/simulator/economy";
import { loadData } from "../scripts/savings/load_data.ts";
import { CASE_FACTOR } from "./cases.ts";

/** Folder of recorded sessions next to the checkout; `undefined` without one. */
export const RECORDED: string | undefined = pathOf("../../shared/trajectories/");

/** Requests of an agent that requests a title first; `undefined` without the file. */
export const TITLE_FIRST: string | undefined = pathOf("../../shared/cases/requests/title_first.json");

function pathOf(file: string): string | undefined {
  const url = new URL(file, import.meta.url);
  try {
    return Deno.statSync(url).isDirectory === file.endsWith("/") ? fromFileUrl(url) : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

const SHORT_CALLS = 40;

/**
 * Returns the recordings to replay: of each source the first short one, and with `TARE_TEST_CASES` > 1 the
 * first `limit`.
 */
export function recordedSessions(
  { limit = Infinity, name }: { readonly limit?: number; readonly name?: string } = {},
): readonly Recording[] {
  if (RECORDED === undefined) throw new Error("Cannot replay recordings: ../shared/trajectories is missing.");
  const isAll = CASE_FACTOR > 1;
  return loadData(RECORDED, { ...(isAll && { limit }), warn() {} })
    .filter((source) => name === undefined || source.name === name)
    .flatMap(({ recordings }) =>
      isAll ? recordings : recordings.filter(({ calls }) => calls.length <= SHORT_CALLS).slice(0, 1)
    );
}
