import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import process from "node:process";
import { checkGiven } from "@tare/messages";
import { isWithin, PROBE, type Sandbox, type SandboxProxy } from "./sandbox.ts";

/** The folders of the system in which programs and what they need stand; no other folder is seen. */
const SYSTEM = [
  ...["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"],
  ...["/nix/store", "/gnu/store"],
];

/** What makes sandboxes, by the system. */
const MAKERS: Readonly<Record<string, Sandbox["by"]>> = { linux: "bubblewrap", darwin: "seatbelt" };

/** Where programs are looked for that nothing else names. */
const USUAL_PATH = "/usr/local/bin:/usr/bin:/bin";

/** Finds out whether this machine can make a sandbox, or else why it can't, in words that complete "because …". */
export async function findSandbox(options: {
  /** Folder that commands work in. */
  readonly workspace: string;
  /** The person's home folder. Default: there is none. */
  readonly home?: string | undefined;
  /** Where programs are found, as in the variable `PATH`; those in the home folder are shown too. Default: the system's. */
  readonly path?: string | undefined;
  /** Folders that commands must not see, such as that of the sessions. */
  readonly hiddenFolders?: readonly string[];
  /** Files that commands must not see, such as those with keys. */
  readonly hiddenFiles?: readonly string[];
  /** Files that commands must not write, such as those with rules. */
  readonly readOnly?: readonly string[];
  /** Names of hosts that can be reached, and how. Default: there is no network. */
  readonly network?: { readonly domains: readonly string[]; readonly proxy: SandboxProxy };
  /** Runs a program and gives what it wrote to its error output if it failed. @throws if there is no such program. */
  readonly tryOut: (program: string, args: readonly string[]) => Promise<string | undefined>;
}): Promise<Sandbox | { readonly why: string }> {
  checkGiven("findSandbox()", { options }, { options: { workspace: "string", tryOut: "function" } });
  const { home = "/nonexistent", path = USUAL_PATH, tryOut, network } = options;
  const workspace = realPath(options.workspace);
  const houses = [realPath(home), ...SYSTEM, "/tmp", "/run", "/var/tmp"];
  if (houses.some((folder) => folder !== workspace ? isWithin(folder, workspace) : !isTemporary(folder))) {
    return { why: `the workspace ${workspace} is the home folder or holds what a sandbox must hide` };
  }
  if (isWithin("/usr", realPath(home))) return { why: `the home folder is ${home}, which holds the system` };
  const folders = path.split(delimiter).filter(isAbsolute);
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
    ...(by === "bubblewrap" ? kept("/etc") : []),
  ];
  return {
    ...{ by, program, workspace, home: realPath(home), hidden },
    system: SYSTEM.flatMap((path) => {
      const found = lstatSync(path, { throwIfNoEntry: false });
      return found === undefined
        ? []
        : [{ path, ...(found.isSymbolicLink() && { link: readlinkSync(path) }) }];
    }),
    shown: programFolders(folders, realPath(home)),
    readOnly: (options.readOnly ?? []).map(realPath).filter((path) => isWithin(path, workspace)),
    domains: network?.domains ?? [],
    ...(network && { proxy: network.proxy }),
  };
}

/** A folder that is empty in each sandbox may itself be the workspace. */
function isTemporary(folder: string): boolean {
  return ["/tmp", "/var/tmp"].includes(folder);
}

function findProgram(name: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/**
 * The folders of programs that the system's don't hold, with what belongs to them: of `…/node/v24/bin` that is `…/node/v24`.
 * Near a home folder, as in `~/.tool/bin`, keys may stand beside the programs.
 */
function programFolders(folders: readonly string[], home: string): Sandbox["shown"] {
  const shown = folders.flatMap((folder) => {
    if (!existsSync(folder)) return [];
    return [...new Set([folder, realpathSync(folder)])].flatMap((at) => {
      if (SYSTEM.some((one) => isWithin(at, one))) return [];
      const whole = /^\.?bin$/.test(basename(at)) ? dirname(at) : at;
      const isDeep = isWithin(whole, home) ? partsOf(relative(home, whole)) > 2 : partsOf(whole) > 2;
      const shown = isDeep ? whole : at;
      return [{ path: realpathSync(shown), at: shown }];
    });
  });
  return [...new Map(shown.map((one) => [one.at, one])).values()];
}

function partsOf(path: string): number {
  return path.split(sep).filter(Boolean).length;
}

/** What in a folder of the system not everybody on the machine may read: whoever runs this perhaps may. */
function kept(folder: string): Sandbox["hidden"] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isSymbolicLink()) return [];
    const { mode } = statSync(path);
    if (!entry.isDirectory()) return (mode & 0o004) === 0 ? [{ path, isFolder: false }] : [];
    return (mode & 0o001) === 0 ? [{ path, isFolder: true }] : kept(path);
  });
}

/** The absolute path without links, as far as there is something. */
function realPath(path: string): string {
  const absolute = resolve(path);
  if (existsSync(absolute)) return realpathSync(absolute);
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute));
}
