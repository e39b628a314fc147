/**
 * Declares what tests need of the machine beyond the lock file. A test with an unmet need is ignored, and
 * its name contains the need, so that the reason appears with the test. Imports nothing. Contains no tests.
 *
 * @module
 */

export interface Need {
  /** Text in the test's name. */
  readonly what: string;
  readonly how?: string;
  readonly isMet: () => boolean;
}

/** Returns the name and options of a test, which is ignored unless all needs are met. */
export function needs(
  need: Need | readonly Need[],
  name: string,
): { readonly name: string; readonly ignore: boolean } {
  const all = [need].flat();
  return {
    name: `${name} (needs ${all.map(({ what }) => what).join(" and ")})`,
    ignore: !all.every(({ isMet }) => isMet()),
  };
}

export const BUBBLEWRAP: Need = {
  what: "bubblewrap",
  how: "apt-get install bubblewrap",
  isMet: once(() =>
    succeeds(
      "bwrap",
      ...["--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true"],
    )
  ),
};

export const NGINX: Need = program("nginx", "nginx-light", "-v");
export const PGBOUNCER: Need = program("pgbouncer", "pgbouncer", "--version");
export const PS: Need = program("ps", "procps", "-p", `${Deno.pid}`);
export const TAR: Need = program("tar", "tar", "--version");
export const GIT: Need = program("git", "git", "--version");
export const MAKE: Need = program("make", "make", "--version");
export const CURL: Need = program("curl", "curl", "--version");
export const WGET: Need = program("wget", "wget", "--version");
export const RSYNC: Need = program("rsync", "rsync", "--version");
export const FIND: Need = program("find", "findutils", "-version");
export const SSH: Need = program("ssh", "openssh-client", "-V");
export const NPM: Need = program("npm", "npm", "--version");
export const SYSTEMD: Need = program("systemd-analyze", "systemd", "--version");

/** Library of Debian's package that changes the time that a program sees. */
export const FAKETIME_LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

export const FAKETIME: Need = {
  what: "faketime",
  how: "apt-get install faketime",
  isMet: () => exists(FAKETIME_LIBRARY),
};

/** Non-root user: root ignores file permissions. */
export const NOT_ROOT: Need = { what: "a user other than root", isMet: () => Deno.uid() !== 0 };

/** File system, which runtimes such as workerd lack. */
export const FILES: Need = { what: "files", isMet: () => "readDir" in Deno };

/** File system other than that of temporary folders. */
export const SHARED_MEMORY: Need = { what: "shared memory (/dev/shm)", isMet: () => exists("/dev/shm") };

export const LINUX: Need = { what: "Linux", isMet: () => Deno.build.os === "linux" };
export const NOT_WINDOWS: Need = {
  what: "a system other than Windows",
  isMet: () => Deno.build.os !== "windows",
};

export const SMALL_DISK: Need = {
  what: "the right to mount a disk",
  isMet: once(() => {
    const folder = Deno.makeTempDirSync();
    try {
      return succeeds("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder) && succeeds("umount", folder);
    } finally {
      Deno.removeSync(folder);
    }
  }),
};

export const RECORDINGS: Need = {
  what: "recorded sessions",
  isMet: () => exists(new URL("../../shared/trajectories/", import.meta.url)),
};

export function program(name: string, debianPackage: string, ...args: readonly string[]): Need {
  return { what: name, how: `apt-get install ${debianPackage}`, isMet: once(() => succeeds(name, ...args)) };
}

function succeeds(name: string, ...args: readonly string[]): boolean {
  try {
    return new Deno.Command(name, { args: [...args], stdout: "null", stderr: "null" }).outputSync().success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function exists(path: string | URL): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

function once(isMet: () => boolean): () => boolean {
  let known: boolean | undefined;
  return () => known ??= isMet();
}
