import { join } from "@std/path";
import { serverCommand } from "../../crash/server_process.ts";
import { OWNER_KEY } from "./client.ts";
import { GO, LOG, NOTES } from "./cluster_model.ts";
import { LoadBalancer } from "./load_balancer.ts";
import { type Postgres, query, runSql } from "./postgres.ts";
import { type Program, startProgram } from "../../crash/program.ts";
import { type Provider, startProvider } from "./provider.ts";
import { TcpProxy } from "./tcp_proxy.ts";

export interface Member {
  readonly user: string;
  readonly network: TcpProxy;
  /** Program, running or stopped; `undefined` if it has ended. */
  program: Program | undefined;
}

const PASSWORD = "only for tests";

export interface ClusterOptions {
  readonly seed: number;
  /** Number of servers. Default: 3. */
  readonly servers?: number;
  readonly probeMs?: number;
}

/** Servers on one database, each with its own proxy, behind a load balancer, with one provider. */
export class Cluster implements AsyncDisposable {
  readonly members: readonly Member[];
  readonly balancer: LoadBalancer;
  readonly provider: Provider;
  readonly database: string;
  readonly postgres: Postgres;
  readonly #folder: string;
  #before = "";

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
    // Servers act as the owner; the database still knows the user.
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

  get urls(): readonly string[] {
    return this.members.flatMap(({ program }) => program ? [program.url] : []);
  }

  /** Starts a stopped server with this additional environment, and adds it to the load balancer. */
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
    await Deno.mkdir(join(this.#folder, `data ${place}`), { recursive: true });
    await Deno.writeTextFile(
      join(this.#folder, `data ${place}`, "owner.json"),
      JSON.stringify({ key: OWNER_KEY, ports: [] }),
    );
    member.program = await startProgram(serverCommand(args, { TARE_DATABASE: url.href, ...env }));
    this.balancer.put(place, member.program.url);
  }

  async endMember(member: Member, signal: Deno.Signal): Promise<void> {
    const program = member.program;
    member.program = undefined;
    this.#before += await program?.end(signal) ?? "";
  }

  async restart(): Promise<void> {
    for (const member of this.members) {
      await this.endMember(member, "SIGTERM");
      await this.startMember(member);
    }
  }

  get complaints(): string {
    return this.#before + this.members.map(({ program }) => program?.logged() ?? "").join("");
  }

  /** Number of reports that the gateway continued without stored state because the database was too slow. */
  get slowReads(): number {
    return this.complaints.split("the store hasn't answered within").length - 1;
  }

  async log(): Promise<string> {
    return await Deno.readTextFile(join(this.#folder, "workspace", LOG));
  }

  /** Releases the commands of the model that wait. */
  async letGo(): Promise<void> {
    await Deno.writeTextFile(join(this.#folder, "workspace", GO), "");
  }

  query<Row>(sql: string, values?: unknown[]): Promise<Row[]> {
    return query(this.database, sql, values);
  }

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
