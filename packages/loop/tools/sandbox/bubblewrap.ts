import { dirname, join, relative, sep } from "node:path";
import { lstatSync } from "node:fs";
import type { Sandbox, SandboxedCommand } from "./sandbox.ts";

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
export function bubblewrapArgs(sandbox: Sandbox, given: SandboxedCommand): readonly string[] {
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
