import { fromFileUrl, join } from "@std/path";
import { until } from "./client.ts";

const GIVEN = fromFileUrl(new URL("../../../deploy/nginx.conf", import.meta.url));

export class Nginx implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #output: Promise<string>;
  readonly #folder: string;
  readonly #client: Deno.HttpClient;

  private constructor(process: Deno.ChildProcess, folder: string) {
    this.#process = process;
    this.#output = new Response(process.stderr).text();
    this.#folder = folder;
    this.#client = Deno.createHttpClient({ proxy: { transport: "unix", path: join(folder, "socket") } });
  }

  /** Starts nginx in front of these servers, on a socket. */
  static async start(urls: readonly string[]): Promise<Nginx> {
    const folder = await Deno.makeTempDir();
    const servers = urls.map((url) => `server ${new URL(url).host} max_fails=2 fail_timeout=5s;`).join("\n");
    const given = await Deno.readTextFile(GIVEN);
    const site = given
      .replace(/( *server 10\.\S+ .*\n)+/, `${servers}\n`)
      .replace("listen 443 ssl;", `listen unix:${join(folder, "socket")};`)
      .replace(/ *ssl_certificate.*\n/g, "");
    await Deno.writeTextFile(join(folder, "site.conf"), site);
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${join(folder, name)};`).join("\n");
    const main =
      `daemon off; worker_processes 2; pid ${join(folder, "pid")}; events {} http { access_log off;\n` +
      `${temporary}\ninclude ${join(folder, "site.conf")}; }\n`;
    await Deno.writeTextFile(join(folder, "nginx.conf"), main);
    const process = new Deno.Command("nginx", {
      args: ["-e", "stderr", "-p", folder, "-c", join(folder, "nginx.conf")],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const nginx = new Nginx(process, folder);
    try {
      await until("nginx listens", async () => {
        const ended = await Promise.race([process.status, Promise.resolve(undefined)]);
        if (ended) throw new Error(`nginx ended: ${await nginx.#output}`);
        return await Deno.stat(join(folder, "pid")).catch(() => undefined);
      });
    } catch (error) {
      await nginx[Symbol.asyncDispose]();
      throw error;
    }
    return nginx;
  }

  fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`http://127.0.0.1${path}`, { ...init, client: this.#client });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    this.#process.kill("SIGTERM");
    await this.#process.status;
    await this.#output;
    await Deno.remove(this.#folder, { recursive: true });
  }
}
