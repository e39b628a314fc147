import { fromFileUrl } from "@std/path";

/** A program of npm's that is an MCP server, as its entry names it: the version that this folder's lock file knows. */
export function npmServer(name: "everything" | "filesystem", ...args: readonly string[]) {
  const config = fromFileUrl(new URL("../deno.json", import.meta.url));
  const version = JSON.parse(Deno.readTextFileSync(config)).imports[`@modelcontextprotocol/server-${name}`];
  return program(["run", "--frozen", "-A", "--config", config, version, ...args]);
}

/** A server of `odd_server.ts`, which does one thing that servers should not. */
export function oddServer(mode: string, ...args: readonly string[]) {
  const file = fromFileUrl(new URL("odd_server.ts", import.meta.url));
  return program(["run", "-A", "--no-config", "--no-lock", file, mode, ...args]);
}

/** Deno itself wants to know where it keeps what it has loaded, which a sandbox hides. */
function program(args: readonly string[]) {
  const env = Object.fromEntries(
    ["HOME", "DENO_DIR"].flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return { command: Deno.execPath(), args, env: { ...env, NO_COLOR: "1" }, sandbox: false };
}
