import { fromFileUrl, join, resolve } from "@std/path";
import { findSandbox, type Sandbox } from "@tare/tools/sandbox";
import type { Settings } from "./settings/settings.ts";

/** The sandbox that these settings want, or why there is none. With hosts to reach, what leads to them ends with this process. */
export async function serverSandbox(
  { sandbox, allowDomains, workspace, data, path, instructions, mcp, approvals, profile, database }: Settings,
  { home, temporary }: {
    readonly home: string | undefined;
    /** Where a socket may be made. */
    readonly temporary: string;
  },
): ReturnType<typeof findSandbox> {
  if (sandbox === "off") return { why: "TARE_SANDBOX is off" };
  const files = (...paths: (string | undefined)[]) =>
    paths.flatMap((path) => path === undefined ? [] : [resolve(path)]);
  const hasNetwork = allowDomains.length > 0 && Deno.build.os === "linux";
  return await findSandbox({
    ...(hasNetwork && { network: await sandboxNetwork(allowDomains, temporary) }),
    ...{ workspace, path, home },
    hiddenFolders: [resolve(data)],
    hiddenFiles: files(mcp?.path, ...database?.files ?? []),
    readOnly: files(approvals?.path, profile?.path, instructions?.path),
    async tryOut(program, args) {
      const { success, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" })
        .output();
      return success ? undefined : new TextDecoder().decode(stderr);
    },
  });
}

const PROXY = fromFileUrl(new URL("network/domain_proxy.ts", import.meta.url));
const BRIDGE = fromFileUrl(new URL("network/bridge.js", import.meta.url));

/** Where Deno's cache is, and whose certificates it believes. */
const VARIABLES = ["HOME", "DENO_DIR", "XDG_CACHE_HOME", "DENO_CERT", "DENO_TLS_CA_STORE"];

/** Starts the bridge in the background, waits until it listens, and becomes the command. */
const BRIDGED =
  'deno=$1 bridge=$2 socket=$3; shift 3; mkfifo /tmp/.bridge; DENO_DIR=/tmp/.deno "$deno" run --no-prompt ' +
  '--no-config --no-lock "--allow-net=127.0.0.1:3128,unix:$socket" "--allow-read=$socket" "--allow-write=$socket" ' +
  '"$bridge" "$socket" </dev/null >/tmp/.bridge 2>/dev/null & read -r _ </tmp/.bridge; exec "$@"';

/**
 * Starts the proxy by which the sandbox reaches these hosts, in a process that ends with this one.
 *
 * @param folder Where its socket is made.
 */
async function sandboxNetwork(
  domains: readonly string[],
  folder: string,
): Promise<{ readonly domains: readonly string[]; readonly proxy: NonNullable<Sandbox["proxy"]> }> {
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
      ...[`--allow-read=${socket}`, `--allow-write=${socket}`, PROXY, socket, ...domains],
    ],
    clearEnv: true,
    env: Object.fromEntries(VARIABLES.flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value]];
    })),
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  // It ends with this process, which waits for nothing of it.
  process.unref();
  for await (const _ of process.stdout) break;
  // By its own path, Deno would take it for a program of Node's that shall be run by Deno, and add permissions.
  const deno = Deno.execPath().replace(/[^/]*$/, "./$&");
  const bridge = ["/bin/sh", "-c", BRIDGED, "sh", deno, BRIDGE, socket];
  return { domains, proxy: { socket, bridge, files: [deno, BRIDGE] } };
}
