import { fromFileUrl } from "@std/path";

/** The folder of recorded sessions beside the checkout. They aren't part of it: `undefined` where there is none. */
export const RECORDED: string | undefined = pathOf("../../shared/trajectories/");

/** Requests of an agent that asks for a title first, with other texts of the same lengths; likewise. */
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
