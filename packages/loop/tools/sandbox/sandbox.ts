import { bubblewrapArgs } from "./bubblewrap.ts";
import { seatbeltArgs } from "./seatbelt.ts";

/**
 * A sandbox that this machine can make, and what stands in it. It is plain data, so that one process may find it out,
 * which may look at all of the machine, and another one use it, which may not. {@linkcode findSandbox} makes one.
 */
export interface Sandbox {
  /** What makes it: `bubblewrap` on Linux, `seatbelt` on macOS. */
  readonly by: "bubblewrap" | "seatbelt";
  /** Absolute path of the program that makes it. */
  readonly program: string;
  /** Absolute path, without links, of the only folder of this machine that can be written in. */
  readonly workspace: string;
  /** The person's home folder: of it nothing is seen but what {@linkcode Sandbox.shown} names. */
  readonly home: string;
  /** The system's folders that can be read; `link` is where one leads that is a link. */
  readonly system: readonly { readonly path: string; readonly link?: string }[];
  /** Folders of programs that can be read too, as `at`, where their links lead to `path`. */
  readonly shown: readonly { readonly path: string; readonly at: string }[];
  /** What of all that is hidden again. */
  readonly hidden: readonly { readonly path: string; readonly isFolder: boolean }[];
  /** Files in the workspace that can't be written. */
  readonly readOnly: readonly string[];
  /** Names of hosts that can be reached, `*.` in front for those below; empty if there is no network. */
  readonly domains: readonly string[];
  /** How hosts are reached. Absent without `domains`. */
  readonly proxy?: SandboxProxy;
}

/** How a sandbox without a network of its own reaches hosts. */
export interface SandboxProxy {
  /** Absolute path of the socket on which a proxy lets through what is allowed. */
  readonly socket: string;
  /** The command that, within the sandbox, carries connections from the proxy's port to the socket and then runs what follows. */
  readonly bridge: readonly string[];
  /** Files that the bridge needs to see. */
  readonly files: readonly string[];
}

/** What is run in a sandbox. */
export interface SandboxedCommand {
  /** The program and its arguments. */
  readonly command: readonly string[];
  /** Folder that it starts in. */
  readonly cwd: string;
  /** Further folders that it may write in. Default: none. */
  readonly folders?: readonly string[];
  /** Further folders and files that it may read. Default: none. */
  readonly reads?: readonly string[];
  /**
   * Whether it runs with the person's own rights, files and network. Even then, on Linux, it sees no other processes, nothing of
   * what is hidden, and ends with whoever started it. Default: it doesn't.
   */
  readonly isOutside?: boolean;
}

/** How a command in a sandbox is started. */
interface Started {
  readonly program: string;
  readonly args: readonly string[];
  /** What its environment has besides. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether the system ends all that it started once its first process ends. */
  readonly endsWhole: boolean;
}

/** The port in a sandbox on which its proxy is reached. */
export const PROXY_PORT = 3128;

/** How a command is started in a sandbox. Call `guardGit()` before. */
export function sandboxed(sandbox: Sandbox, given: SandboxedCommand): Started {
  const { by, program, proxy } = sandbox;
  const isBridged = proxy !== undefined && given.isOutside !== true;
  const env = isBridged ? PROXY_ENVIRONMENT : {};
  if (by === "seatbelt") {
    const [first = "", ...rest] = given.command;
    if (given.isOutside) return { program: first, args: rest, env: {}, endsWhole: false };
    return { program, args: seatbeltArgs(sandbox, given), env, endsWhole: false };
  }
  return { program, args: bubblewrapArgs(sandbox, given), env, endsWhole: true };
}

const PROXY = `http://127.0.0.1:${PROXY_PORT}`;

/** The names under which programs look for a proxy, and Node's word that it shall look too. */
const PROXY_ENVIRONMENT = {
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  http_proxy: PROXY,
  https_proxy: PROXY,
  NO_PROXY: "localhost,127.0.0.1,::1",
  no_proxy: "localhost,127.0.0.1,::1",
  NODE_USE_ENV_PROXY: "1",
};
