import { resolve } from "@std/path";

/** The absolute path without symbolic links, as far as there is something. */
export function realPath(path: string): string {
  try {
    return Deno.realPathSync(resolve(path));
  } catch (error) {
    // Whoever uses a path that can't be had says so.
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotCapable) {
      return resolve(path);
    }
    throw error;
  }
}
