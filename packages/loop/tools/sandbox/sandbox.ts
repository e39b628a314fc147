import process from "node:process";
import { lstatSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

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
const PROXY_PORT = 3128;

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

/** Namespaces of its own for all there are, no rights, and an end with whoever started it. */
const APART = [
  "--unshare-all",
  // As the system's administrator too, whose mounts could be undone otherwise.
  "--unshare-user",
  "--die-with-parent",
  "--new-session",
  ...["--cap-drop", "ALL"],
];

/** What Bubblewrap is told to find out whether it can make a sandbox here. */
export const PROBE: readonly string[] = [
  ...APART,
  ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--tmpfs", "/tmp"],
  ...["--", "/bin/sh", "-c", ":"],
];

/** What Bubblewrap is told to run a command in a sandbox. Of what comes later in the list the later counts. */
function bubblewrapArgs(sandbox: Sandbox, given: SandboxedCommand): readonly string[] {
  const { command, cwd, isOutside = false } = given;
  const walls = isOutside ? outside(sandbox) : inside(sandbox, given);
  const bridge = isOutside ? [] : sandbox.proxy?.bridge ?? [];
  return [...walls, "--chdir", cwd, "--", ...bridge, ...command];
}

function inside(sandbox: Sandbox, { folders = [], reads = [] }: SandboxedCommand): readonly string[] {
  const { workspace, home, system, shown, hidden, readOnly, proxy } = sandbox;
  const writable = [workspace, ...folders];
  const seen = [...system.map(({ path }) => path), ...shown.map(({ at }) => at), ...reads, ...writable];
  const hides = hidden.filter(({ path }) => seen.some((folder) => isWithin(path, folder)));
  const git = join(workspace, ".git");
  const fixed = [git, ...readOnly, ...hides.map(({ path }) => path)];
  return [
    ...APART,
    ...system.flatMap(({ path, link }) => link === undefined ? show(path) : ["--symlink", link, path]),
    ...["--dev", "/dev", "--proc", "/proc"],
    // By /proc/sys the system's administrator could have programs run outside.
    ...["--remount-ro", "/proc"],
    // Sockets of other programs stand in these folders.
    ...["/tmp", "/run", "/var/tmp"].flatMap((path) => ["--tmpfs", path]),
    ...["--symlink", "/run", "/var/run"],
    ...["--tmpfs", home],
    ...shown.flatMap(({ path, at }) => ["--ro-bind-try", path, at]),
    ...reads.flatMap((path) => ["--ro-bind-try", path, path]),
    ...writable.flatMap((path) => ["--bind", path, path]),
    // A folder could be renamed in which something stands fixed, and another one made in its place; what is itself mounted can't.
    ...pinned(fixed, workspace).flatMap((path) => ["--bind-try", path, path]),
    ...(isThere(git) ? show(git) : ["--tmpfs", git, "--remount-ro", git]),
    ...readOnly.flatMap((path) => ["--ro-bind-try", path, path]),
    ...hide(hides),
    ...(proxy === undefined ? [] : [proxy.socket, ...proxy.files].flatMap(show)),
    ...["--remount-ro", "/"],
  ];
}

/** All that a person may, but for other processes and what is hidden. */
function outside({ hidden }: Sandbox): readonly string[] {
  return [
    ...["--die-with-parent", "--new-session", "--unshare-pid"],
    // The system's administrator could undo what hides the others.
    ...["--cap-drop", "CAP_SYS_ADMIN", "--cap-drop", "CAP_SYS_PTRACE"],
    ...["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"],
    // A command outside may be meant for what the system keeps to itself, but never for what the server does.
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

/** The folders between another one and what stands somewhere in it, the outermost first. */
function pinned(paths: readonly string[], folder: string): readonly string[] {
  const between = new Set<string>();
  for (const path of paths.filter((path) => isWithin(path, folder))) {
    for (let at = dirname(path); at !== folder && isWithin(at, folder); at = dirname(at)) between.add(at);
  }
  return [...between].sort((a, b) => a.length - b.length);
}

/** Whether a path is a folder's own or leads into it. */
export function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== ".." && !way.startsWith(`..${sep}`);
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** What of macOS itself nearly every program reads. */
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

/** Services that names, users, time zones and certificates are looked up by, and none that would start a program. */
const SERVICES = [
  "com.apple.system.opendirectoryd.libinfo",
  "com.apple.system.opendirectoryd.membership",
  "com.apple.system.logger",
  "com.apple.system.notification_center",
  "com.apple.trustd.agent",
];

/** What `sandbox-exec` is told to run a command in a sandbox: all that isn't named is refused. */
function seatbeltArgs(
  { workspace, shown, hidden, readOnly }: Sandbox,
  { command, folders = [], reads = [] }: SandboxedCommand,
): readonly string[] {
  const temporary = `/private/tmp/tare-${process.getuid?.() ?? 0}`;
  const writable = [workspace, temporary, ...folders];
  const fixed = [join(workspace, ".git"), ...readOnly];
  const subpaths = (paths: readonly string[]) => paths.map((path) => `(subpath ${quoted(path)})`).join(" ");
  const profile = [
    "(version 1)",
    "(deny default)",
    "(allow process-exec process-fork)",
    "(allow signal process-info* (target same-sandbox))",
    "(allow sysctl-read)",
    "(allow file-read-metadata)",
    `(allow file-read* (literal "/") ${
      subpaths([...MACOS, ...shown.flatMap(({ path, at }) => [path, at]), ...reads, ...writable])
    })`,
    `(allow file-write* ${subpaths(writable)})`,
    '(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))',
    `(allow mach-lookup ${SERVICES.map((name) => `(global-name ${quoted(name)})`).join(" ")})`,
    "(allow ipc-posix-sem ipc-posix-shm)",
    `(deny file-write* ${subpaths(fixed)})`,
    ...(hidden.length === 0
      ? []
      : [`(deny file-read* file-write* ${subpaths(hidden.map(({ path }) => path))})`]),
  ];
  return ["-p", profile.join("\n"), "/bin/sh", "-c", WITH_TEMPORARY, "sh", temporary, ...command];
}

/** Makes the folder for what is temporary before it runs the command. */
const WITH_TEMPORARY = 'export TMPDIR="$1"; mkdir -p "$1"; shift; exec "$@"';

function quoted(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
