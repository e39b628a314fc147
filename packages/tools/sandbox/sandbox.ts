import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, DELIMITER, dirname, isAbsolute, join, relative, resolve, SEPARATOR } from "@std/path";
import type { ChildProcess } from "node:child_process";
import process from "node:process";
import { Writable } from "node:stream";
import { isWithin } from "../files/resolve_in_workspace.ts";
import { PROTECTED_REGEX } from "./guard.ts";
import { systemCallFilter } from "./system_call_filter.ts";

/**
 * Sandbox of this machine, from {@linkcode findSandbox}. Plain data: a process that can read the whole
 * machine finds it, another one without these rights uses it.
 */
export interface Sandbox {
  readonly by: "bubblewrap" | "seatbelt";
  readonly program: string;
  /** Absolute path, without links, of the only writable folder. */
  readonly workspace: string;
  readonly home: string;
  /** Readable folders of the system. `link` is the target of one that is a link. */
  readonly system: readonly { readonly path: string; readonly link?: string }[];
  /** Readable folders of programs at `at`; `path` is their real path. */
  readonly mounted: readonly { readonly path: string; readonly at: string }[];
  readonly hidden: readonly { readonly path: string; readonly isFolder: boolean }[];
  readonly readOnly: readonly string[];
  /** Reachable hosts; `*.example.com` matches subdomains. Empty: no network. */
  readonly domains: readonly string[];
  /** Connection to these hosts. Absent without `domains`. */
  readonly proxy?: {
    readonly socket: string;
    /**
     * Command that, in the sandbox, forwards the proxy's port to the socket and runs the following arguments.
     */
    readonly bridge: readonly string[];
    readonly files: readonly string[];
  };
}

/** Options of {@linkcode findSandbox}. */
export interface SandboxOptions {
  readonly workspace: string;
  /** Home folder of the user. Default: none. */
  readonly home?: string | undefined;
  /** Program folders, as in `PATH`; those in the home folder are visible too. Default: the system's. */
  readonly path?: string | undefined;
  /** Folders hidden from commands, such as that of the sessions. Default: none. */
  readonly hiddenFolders?: readonly string[];
  /** Files hidden from commands, such as those with keys. Default: none. */
  readonly hiddenFiles?: readonly string[];
  /** Read-only files, such as those with rules. Default: none. */
  readonly readOnly?: readonly string[];
  readonly network?: { readonly domains: readonly string[]; readonly proxy: NonNullable<Sandbox["proxy"]> };
  /** Runs a program and returns its error output if it failed. @throws if there is no such program. */
  readonly tryOut: (program: string, args: readonly string[]) => Promise<string | undefined>;
}

/** Reason why this machine has no sandbox. */
export interface NoSandbox {
  /** Completes "because …". */
  readonly why: string;
}

export interface SandboxedCommand {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly folders?: readonly string[];
  readonly fixed?: readonly string[];
  readonly reads?: readonly string[];
  /**
   * Whether it has the user's own rights, files and network. On Linux, it still can't see other processes or
   * hidden paths, and ends with its parent. Default: false.
   */
  readonly isOutside?: boolean;
}

export interface SandboxStart {
  readonly program: string;
  readonly args: readonly string[];
  readonly inputs: readonly (string | Uint8Array)[];
  readonly env: Readonly<Record<string, string>>;
  readonly endsWhole: boolean;
}

const PROXY_PORT = 3128;

export function unconfined([program = "", ...args]: readonly string[]): SandboxStart {
  return { program, args, env: {}, inputs: [], endsWhole: false };
}

/** Returns how to start a command in a sandbox. Call `guardWorkspace()` before. */
export function sandboxed(sandbox: Sandbox, given: SandboxedCommand): SandboxStart {
  const { by, program, proxy } = sandbox;
  const isBridged = proxy !== undefined && given.isOutside !== true;
  const env = isBridged ? PROXY_ENVIRONMENT : {};
  if (by === "seatbelt") {
    if (given.isOutside) return unconfined(given.command);
    return { program, args: seatbeltArgs(sandbox, given), env, inputs: [], endsWhole: false };
  }
  const { options, command } = bubblewrapArgs(sandbox, given);
  const filter = given.isOutside ? undefined : FILTER;
  return {
    program,
    args: ["--args", "3", ...(filter === undefined ? [] : ["--seccomp", "4"]), "--", ...command],
    // Options on the command line would reveal the hidden paths to the command.
    inputs: [options.map((option) => `${option}\0`).join(""), ...(filter === undefined ? [] : [filter])],
    ...{ env, endsWhole: true },
  };
}

const FILTER = systemCallFilter();

/** Writes the input of a sandbox to its descriptors from 3 on, once it has been started. */
export function writeInputs(child: Pick<ChildProcess, "stdio">, inputs: SandboxStart["inputs"]): void {
  for (const [at, input] of inputs.entries()) {
    const pipe = child.stdio[3 + at];
    if (!(pipe instanceof Writable)) {
      throw new TypeError(`Cannot write to descriptor ${3 + at}: it is no pipe.`);
    }
    pipe.on("error", () => {});
    pipe.end(input);
  }
}

const PROXY = `http://127.0.0.1:${PROXY_PORT}`;

const PROXY_ENVIRONMENT = {
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  http_proxy: PROXY,
  https_proxy: PROXY,
  NO_PROXY: "localhost,127.0.0.1,::1",
  no_proxy: "localhost,127.0.0.1,::1",
  NODE_USE_ENV_PROXY: "1",
};

/** All namespaces, no capabilities, and an end with the parent. */
const APART = [
  "--unshare-all",
  "--unshare-user",
  "--die-with-parent",
  "--new-session",
  ...["--cap-drop", "ALL"],
];

/** Arguments that test whether bubblewrap works here. */
export const PROBE: readonly string[] = [
  ...APART,
  ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--tmpfs", "/tmp"],
  ...["--", "/bin/sh", "-c", ":"],
];

/** Returns bubblewrap's arguments. Later ones override earlier ones. */
function bubblewrapArgs(
  sandbox: Sandbox,
  given: SandboxedCommand,
): { readonly options: readonly string[]; readonly command: readonly string[] } {
  const { command, cwd, isOutside = false } = given;
  const walls = isOutside ? outside(sandbox) : inside(sandbox, given);
  const bridge = isOutside ? [] : sandbox.proxy?.bridge ?? [];
  return { options: [...walls, "--chdir", cwd], command: [...bridge, ...command] };
}

function inside(
  sandbox: Sandbox,
  { folders = [], reads = [], fixed: given = [] }: SandboxedCommand,
): readonly string[] {
  const { workspace, home, system, mounted, hidden, readOnly, proxy } = sandbox;
  const writable = [workspace, ...folders];
  const seen = [...system.map(({ path }) => path), ...mounted.map(({ at }) => at), ...reads, ...writable];
  const hides = hidden.filter(({ path }) => seen.some((folder) => isWithin(path, folder)));
  const git = join(workspace, ".git");
  const readOnlyPaths = [...readOnly, ...given];
  const fixed = [git, ...readOnlyPaths, ...hides.map(({ path }) => path)];
  return [
    ...APART,
    ...system.flatMap(({ path, link }) => link === undefined ? show(path) : ["--symlink", link, path]),
    ...["--dev", "/dev", "--proc", "/proc"],
    // Root could start programs outside through /proc/sys.
    ...["--remount-ro", "/proc"],
    // These folders contain sockets of other programs.
    ...["/tmp", "/run", "/var/tmp"].flatMap((path) => ["--tmpfs", path]),
    ...["--symlink", "/run", "/var/run"],
    ...["--tmpfs", home],
    ...mounted.flatMap(({ path, at }) => ["--ro-bind-try", path, at]),
    ...reads.flatMap((path) => ["--ro-bind-try", path, path]),
    ...writable.flatMap((path) => ["--bind", path, path]),
    // A folder around a read-only path could be renamed and replaced unless it is a mount itself.
    ...pinned(fixed, workspace).flatMap((path) => ["--bind-try", path, path]),
    ...(isThere(git) ? show(git) : []),
    ...readOnlyPaths.flatMap((path) => ["--ro-bind-try", path, path]),
    ...hide(hides),
    ...(proxy === undefined ? [] : [proxy.socket, ...proxy.files].flatMap(show)),
    ...["--remount-ro", "/"],
  ];
}

function outside({ hidden }: Sandbox): readonly string[] {
  return [
    ...["--die-with-parent", "--new-session", "--unshare-pid"],
    ...["--cap-drop", "CAP_SYS_ADMIN", "--cap-drop", "CAP_SYS_PTRACE"],
    ...["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"],
    // Commands outside may need the system's private files, but never the server's.
    ...hide(hidden.filter(({ path }) => !path.startsWith("/etc/") && isThere(path))),
  ];
}

function show(path: string): readonly string[] {
  return ["--ro-bind", path, path];
}

function hide(hidden: Sandbox["hidden"]): readonly string[] {
  return hidden.flatMap(({ path, isFolder }) =>
    isFolder ? ["--tmpfs", path, "--remount-ro", path] : ["--ro-bind-try", "/dev/null", path]
  );
}

function pinned(paths: readonly string[], folder: string): readonly string[] {
  const between = new Set<string>();
  for (const path of paths.filter((path) => isWithin(path, folder))) {
    for (let at = dirname(path); at !== folder && isWithin(at, folder); at = dirname(at)) between.add(at);
  }
  return [...between].sort((a, b) => a.length - b.length);
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

const MACOS = [
  ...[
    "/usr",
    "/bin",
    "/sbin",
    "/System",
    "/Library",
    "/opt",
    "/etc",
    "/private/etc",
    "/var/db",
    "/private/var/db",
  ],
  ...["/var/select", "/private/var/select", "/dev", "/Applications"],
];

const SERVICES = [
  "com.apple.system.opendirectoryd.libinfo",
  "com.apple.system.opendirectoryd.membership",
  "com.apple.system.logger",
  "com.apple.system.notification_center",
  "com.apple.trustd.agent",
];

function seatbeltArgs(
  { workspace, mounted, hidden, readOnly }: Sandbox,
  { command, folders = [], reads = [], fixed: given = [] }: SandboxedCommand,
): readonly string[] {
  const temporary = `/private/tmp/tare-${process.getuid?.() ?? 0}`;
  const writable = [workspace, temporary, ...folders];
  const fixed = [join(workspace, ".git"), ...readOnly, ...given];
  const subpaths = (paths: readonly string[]) => paths.map((path) => `(subpath ${quoted(path)})`).join(" ");
  const profile = [
    "(version 1)",
    "(deny default)",
    "(allow process-exec process-fork)",
    "(allow signal process-info* (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow file-read-metadata)",
    `(allow file-read* (literal "/") ${
      subpaths([...MACOS, ...mounted.flatMap(({ path, at }) => [path, at]), ...reads, ...writable])
    })`,
    `(allow file-write* ${subpaths(writable)})`,
    '(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))',
    `(allow mach-lookup ${SERVICES.map((name) => `(global-name ${quoted(name)})`).join(" ")})`,
    "(allow ipc-posix-sem ipc-posix-shm)",
    `(deny file-write* ${subpaths(fixed)})`,
    `(deny file-write* (require-all (subpath ${quoted(workspace)}) (regex #"${PROTECTED_REGEX}")))`,
    ...(hidden.length === 0
      ? []
      : [`(deny file-read* file-write* ${subpaths(hidden.map(({ path }) => path))})`]),
  ];
  return ["-p", profile.join("\n"), "/bin/sh", "-c", WITH_TEMPORARY, "sh", temporary, ...command];
}

const WITH_TEMPORARY = 'export TMPDIR="$1"; mkdir -p "$1"; shift; exec "$@"';

function quoted(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

const SYSTEM = [
  ...["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"],
  ...["/nix/store", "/gnu/store"],
];

const MAKERS: Readonly<Record<string, Sandbox["by"]>> = { linux: "bubblewrap", darwin: "seatbelt" };

const USUAL_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * Returns a sandbox for this machine, or the reason why there is none.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { findSandbox } from "@tare/tools/sandbox";
 *
 * const found = await findSandbox({ workspace: "/", tryOut: () => Promise.resolve(undefined) });
 * assertEquals(found, { why: "the workspace / is the home folder or contains what a sandbox must hide" });
 * ```
 */
export async function findSandbox(options: SandboxOptions): Promise<Sandbox | NoSandbox> {
  const { home = "/nonexistent", path = USUAL_PATH, tryOut, network } = options;
  const workspace = realPath(options.workspace);
  const houses = [realPath(home), ...SYSTEM, "/tmp", "/run", "/var/tmp"];
  if (houses.some((folder) => folder !== workspace ? isWithin(folder, workspace) : !isTemporary(folder))) {
    return { why: `the workspace ${workspace} is the home folder or contains what a sandbox must hide` };
  }
  if (isWithin("/usr", realPath(home))) {
    return { why: `the home folder is ${home}, which contains the system` };
  }
  const folders = path.split(DELIMITER).filter(isAbsolute);
  const by = MAKERS[process.platform];
  if (by === undefined) return { why: `there is none for ${process.platform}` };
  const program = by === "bubblewrap"
    ? findProgram("bwrap", folders)
    : findProgram("sandbox-exec", ["/usr/bin"]);
  if (program === undefined) {
    return { why: by === "bubblewrap" ? "bubblewrap (bwrap) is not installed" : "there is no sandbox-exec" };
  }
  const fault = await tryOut(
    program,
    by === "bubblewrap" ? PROBE : ["-p", "(version 1)(allow default)", "/usr/bin/true"],
  )
    .catch((error: Error) => error.message);
  if (fault !== undefined) return { why: `${basename(program)} fails here: ${fault.trim()}` };
  const hidden = [
    ...(options.hiddenFolders ?? []).map((path) => ({ path: realPath(path), isFolder: true })),
    ...(options.hiddenFiles ?? []).map((path) => ({ path: realPath(path), isFolder: false })),
    ...(by === "bubblewrap" ? privatePathsIn("/etc") : []),
  ];
  return {
    ...{ by, program, workspace, home: realPath(home), hidden },
    system: SYSTEM.flatMap((path) => {
      const found = lstatSync(path, { throwIfNoEntry: false });
      return found === undefined
        ? []
        : [{ path, ...(found.isSymbolicLink() && { link: readlinkSync(path) }) }];
    }),
    mounted: programFolders(folders, realPath(home)),
    readOnly: (options.readOnly ?? []).map(realPath).filter((path) => isWithin(path, workspace)),
    domains: network?.domains ?? [],
    ...(network && { proxy: network.proxy }),
  };
}

function isTemporary(folder: string): boolean {
  return ["/tmp", "/var/tmp"].includes(folder);
}

function findProgram(name: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** Returns parents too: `…/node/v24` for `…/node/v24/bin`. */
function programFolders(folders: readonly string[], home: string): Sandbox["mounted"] {
  const mounted = folders.flatMap((folder) => {
    if (!existsSync(folder)) return [];
    return [...new Set([folder, realpathSync(folder)])].flatMap((at) => {
      if (SYSTEM.some((one) => isWithin(at, one))) return [];
      const whole = /^\.?bin$/.test(basename(at)) ? dirname(at) : at;
      const isDeep = isWithin(whole, home) ? partsOf(relative(home, whole)) > 2 : partsOf(whole) > 2;
      const mounted = isDeep ? whole : at;
      return [{ path: realpathSync(mounted), at: mounted }];
    });
  });
  return [...new Map(mounted.map((one) => [one.at, one])).values()];
}

function partsOf(path: string): number {
  return path.split(SEPARATOR).filter(Boolean).length;
}

function privatePathsIn(folder: string): Sandbox["hidden"] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) return [];
    const { mode } = statSync(path);
    if (!entry.isDirectory()) return (mode & 0o004) === 0 ? [{ path, isFolder: false }] : [];
    return (mode & 0o001) === 0 ? [{ path, isFolder: true }] : privatePathsIn(path);
  });
}

function realPath(path: string): string {
  const absolute = resolve(path);
  if (existsSync(absolute)) return realpathSync(absolute);
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute));
}
