import { fromFileUrl } from "@std/path";

/** The folder of recorded sessions beside the checkout. They aren't part of it: `undefined` where there is none. */
export const RECORDED: string | undefined = folder(new URL("../../shared/trajectories/", import.meta.url));

function folder(url: URL): string | undefined {
  try {
    return Deno.statSync(url).isDirectory ? fromFileUrl(url) : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
