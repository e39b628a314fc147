import { join } from "@std/path";
import { serverCommand } from "../../crash/server_process.ts";
import { OWNER_KEY } from "./client.ts";
import { GO, LOG, NOTES } from "./cluster_model.ts";
import { LoadBalancer } from "./load_balancer.ts";
import { type Postgres, query, runSql } from "./postgres.ts";
import { type Program, startProgram } from "../../crash/program.ts";
import { type Provider, startProvider } from "./provider.ts";
import { TcpProxy } from "./tcp_proxy.ts";

/** A server of the cluster. */
export interface Member {
  /** How the database knows it: the user as whom it connects. */
  readonly user: string;
  /** Its own way to the database. */
  readonly network: TcpProxy;
  /** It listens, or is stopped; nothing if it has ended. */
  program: Program | undefined;
}

const PASSWORD = "only for tests";

/** What a cluster is started with. */
export interface ClusterOptions {
  /** Of what the model does, and when. */
  readonly seed: number;
  /** How many servers. Default: 3. */
  readonly servers?: number;
  /** How long one may take to say that it is well, in milliseconds, before it is taken for one that hangs. Default: 1,000. */
  readonly probeMs?: number;
}

/** Servers on one database, each by a network of its own, behind a load balancer, in front of one provider. */
export class Cluster implements AsyncDisposable {
  readonly members: readonly Member[];
  readonly balancer: LoadBalancer;
  readonly provider: Provider;
  /** Where the database is, for the test's own eyes. */
  readonly database: string;
  readonly postgres: Postgres;
  readonly #folder: string;
  #saidBefore = "";

  private constructor(
    members: readonly Member[],
    { balancer, provider, postgres, database, folder }: {
      readonly balancer: LoadBalancer;
      readonly provider: Provider;
      readonly postgres: Postgres;
      readonly database: string;
      readonly folder: string;
    },
  ) {
    this.members = members;
    this.balancer = balancer;
    this.provider = provider;
    this.postgres = postgres;
    this.database = database;
    this.#folder = folder;
  }

  /** Starts it; everything has ended when it is disposed of. */
  static async start(postgres: Postgres, { seed, servers = 3, probeMs }: ClusterOptions): Promise<Cluster> {
    const folder = await Deno.makeTempDir();
    await Deno.mkdir(join(folder, "workspace"));
    await Deno.writeTextFile(join(folder, "workspace", NOTES), "a line of notes\n".repeat(300));
    await Deno.writeTextFile(join(folder, "workspace", LOG), "");
    const database = await postgres.makeDatabase();
    const { hostname, port } = new URL(database);
    const members = Array.from({ length: servers }, (_, place): Member => ({
      user: `${new URL(database).pathname.slice(1)}_server_${place}`,
      network: new TcpProxy(() => ({ hostname, port: Number(port) })),
      program: undefined,
    }));
    // What a server does it does as the owner; who it was, the database knows all the same.
    const owner = decodeURIComponent(new URL(database).username);
    for (const { user } of members) {
      await runSql(database, `CREATE ROLE ${user} LOGIN PASSWORD '${PASSWORD}' IN ROLE "${owner}"`);
      await runSql(database, `ALTER ROLE ${user} SET role = "${owner}"`);
    }
    const [balancer, provider] = await Promise.all([LoadBalancer.start(probeMs), startProvider(seed)]);
    const cluster = new Cluster(members, { balancer, provider, postgres, database, folder });
    try {
      for (const member of members) await cluster.startMember(member);
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
    return cluster;
  }

  /** Those that run, and not only seem to. */
  get urls(): readonly string[] {
    return this.members.flatMap(({ program }) => program ? [program.url] : []);
  }

  /** Starts a server that doesn't run, with this environment besides, and lets the load balancer know. */
  async startMember(member: Member, env: Readonly<Record<string, string>> = {}): Promise<void> {
    const place = this.members.indexOf(member);
    const url = new URL(this.database);
    url.username = member.user;
    url.password = PASSWORD;
    url.hostname = "127.0.0.1";
    url.port = String(member.network.port);
    const args = [
      ...["--port", "0", "--workspace", join(this.#folder, "workspace")],
      ...["--data", join(this.#folder, `data ${place}`), "--approvals", "allow"],
      ...["--base-url", `${this.provider.url}/v1`, "--messages-url", this.provider.url],
      ...["--model", "simulated", "--profile", "openai", "--window", "64000"],
      ...["--webhook-hosts", "127.0.0.1"],
    ];
    // One owner for all, whichever of them is reached.
    await Deno.mkdir(join(this.#folder, `data ${place}`), { recursive: true });
    await Deno.writeTextFile(
      join(this.#folder, `data ${place}`, "owner.json"),
      JSON.stringify({ key: OWNER_KEY, ports: [] }),
    );
    member.program = await startProgram(serverCommand(args, { TARE_DATABASE: url.href, ...env }));
    this.balancer.put(place, member.program.url);
  }

  /** Ends a server by a signal, and waits until it has. */
  async endMember(member: Member, signal: Deno.Signal): Promise<void> {
    const program = member.program;
    member.program = undefined;
    this.#saidBefore += await program?.end(signal) ?? "";
  }

  /** Ends all servers in order, one after the other, and starts others in their places. */
  async restart(): Promise<void> {
    for (const member of this.members) {
      await this.endMember(member, "SIGTERM");
      await this.startMember(member);
    }
  }

  /** What servers wrote to their error output, and do: those that run stand last. */
  get complaints(): string {
    return this.#saidBefore + this.members.map(({ program }) => program?.said() ?? "").join("");
  }

  /** How often a server said that its gateway goes on without what is stored, because the database was too slow. */
  get slowReads(): number {
    return this.complaints.split("the store hasn't answered within").length - 1;
  }

  /** What the tools wrote down of what ran. */
  async log(): Promise<string> {
    return await Deno.readTextFile(join(this.#folder, "workspace", LOG));
  }

  /** Lets commands of the model go on that wait for it. */
  async letGo(): Promise<void> {
    await Deno.writeTextFile(join(this.#folder, "workspace", GO), "");
  }

  /** Rows of the database, as it is. */
  query<Row>(sql: string, values?: unknown[]): Promise<Row[]> {
    return query(this.database, sql, values);
  }

  /** Ends everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.balancer[Symbol.asyncDispose]();
    for (const member of this.members) {
      member.program?.signal("SIGCONT");
      await this.endMember(member, "SIGKILL");
      await member.network[Symbol.asyncDispose]();
    }
    await this.provider[Symbol.asyncDispose]();
    await this.postgres.dropDatabase(this.database);
    for (const { user } of this.members) await runSql(this.postgres.url, `DROP ROLE ${user}`);
    await Deno.remove(this.#folder, { recursive: true });
  }
}
