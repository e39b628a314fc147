/**
 * Network access of the sandbox: a proxy and a bridge, both Deno programs.
 *
 * @module
 */
import { fromFileUrl, join } from "@std/path";
import type { Sandbox } from "../sandbox.ts";

function programIn(name: string): string {
  return fromFileUrl(new URL(name, import.meta.url));
}

/** Location of Deno's cache, and its certificates. */
const VARIABLES = ["HOME", "DENO_DIR", "XDG_CACHE_HOME", "DENO_CERT", "DENO_TLS_CA_STORE"];

/** Starts the bridge in the background, waits until it listens, and executes the command. */
const BRIDGED =
  'deno=$1 bridge=$2 socket=$3; shift 3; mkfifo /tmp/.bridge; DENO_DIR=/tmp/.deno "$deno" run --no-prompt ' +
  '--no-config --no-lock "--allow-net=127.0.0.1:3128,unix:$socket" "--allow-read=$socket" "--allow-write=$socket" ' +
  '"$bridge" "$socket" </dev/null >/tmp/.bridge 2>/dev/null & read -r _ </tmp/.bridge; exec "$@"';

/**
 * Starts the proxy for these hosts, in a process that ends with this one.
 *
 * @param folder Folder of its socket.
 */
export async function sandboxNetwork(
  domains: readonly string[],
  folder: string,
): Promise<{ readonly domains: readonly string[]; readonly proxy: NonNullable<Sandbox["proxy"]> }> {
  const [proxy, bridge] = [programIn("domain_proxy.ts"), programIn("bridge.js")];
  const socket = join(folder, `tare-${crypto.randomUUID()}.sock`);
  const reached = domains.flatMap((domain) => [`${domain}:443`, `${domain}:80`]);
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      ...[
        "run",
        "--no-prompt",
        "--no-config",
        "--no-lock",
        `--allow-net=${[...reached, `unix:${socket}`].join(",")}`,
      ],
      ...[`--allow-read=${socket}`, `--allow-write=${socket}`, proxy, socket, ...domains],
    ],
    clearEnv: true,
    env: Object.fromEntries(VARIABLES.flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value]];
    })),
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  // It ends with this process and must not keep it alive.
  process.unref();
  for await (const _ of process.stdout) break;
  // By its own path, Deno would treat it as a Node.js program and add permissions.
  const deno = Deno.execPath().replace(/[^/]*$/, "./$&");
  const command = ["/bin/sh", "-c", BRIDGED, "sh", deno, bridge, socket];
  return { domains, proxy: { socket, bridge: command, files: [deno, bridge] } };
}
