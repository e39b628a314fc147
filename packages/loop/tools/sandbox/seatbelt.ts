import { join } from "node:path";
import process from "node:process";
import type { Sandbox, SandboxedCommand } from "./sandbox.ts";

/** What of macOS itself nearly every program reads. */
const SYSTEM = [
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
export function seatbeltArgs(
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
      subpaths([...SYSTEM, ...shown.flatMap(({ path, at }) => [path, at]), ...reads, ...writable])
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
