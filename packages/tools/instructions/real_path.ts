import { realpathSync } from "node:fs";
import { resolve } from "@std/path";
import { isDenied, systemCode } from "../define_tool.ts";

/** Returns the absolute path without symbolic links, or the resolved path if it doesn't exist or can't be read. */
export function realPath(path: string): string {
  try {
    return realpathSync(resolve(path));
  } catch (error) {
    // Its use reports why it can't be accessed.
    if (systemCode(error) === "ENOENT" || isDenied(error)) return resolve(path);
    throw error;
  }
}
