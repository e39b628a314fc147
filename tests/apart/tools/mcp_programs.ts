import { fromFileUrl } from "@std/path";

/** Returns the entry of an npm MCP server, in the version of this folder's lock file. */
export function npmServer(name: "everything" | "filesystem", ...args: readonly string[]) {
  const config = fromFileUrl(new URL("../deno.json", import.meta.url));
  const version = JSON.parse(Deno.readTextFileSync(config)).imports[`@modelcontextprotocol/server-${name}`];
  return program(["run", "--frozen", "-A", "--config", config, version, ...args]);
}

/** Returns the entry of `odd_server.ts` in a mode, which misbehaves in one way. */
export function oddServer(mode: string, ...args: readonly string[]) {
  const file = fromFileUrl(new URL("odd_server.ts", import.meta.url));
  return program(["run", "-A", "--no-config", "--no-lock", file, mode, ...args]);
}

/** Returns the entry of a Deno program with the path of Deno's cache, which a sandbox hides. */
function program(args: readonly string[]) {
  const env = Object.fromEntries(
    ["HOME", "DENO_DIR"].flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return { command: Deno.execPath(), args, env: { ...env, NO_COLOR: "1" }, sandbox: false };
}
