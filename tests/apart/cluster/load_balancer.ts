import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const PROBE_EVERY_MS = 200;

const PASSED_ON = [
  "accept",
  "authorization",
  "content-type",
  "idempotency-key",
  "last-event-id",
  "x-tare-key",
];

const HOP_BY_HOP = new Set(["connection", "keep-alive", "transfer-encoding"]);

interface Backend {
  url: string;
  isUp: boolean;
  readonly underWay: Set<AbortController>;
}

/**
 * Round-robin load balancer with streaming. It removes servers that refuse connections or miss a health
 * probe, and retries only reads and unsent requests.
 */
export class LoadBalancer implements AsyncDisposable {
  readonly #backends: Backend[] = [];
  readonly #client = Deno.createHttpClient({ poolIdleTimeout: 1000 });
  readonly #server: Server;
  readonly #probeMs: number;
  readonly #closed = new AbortController();
  readonly #probing: Promise<void>;
  #turn = 0;

  private constructor(server: Server, probeMs: number) {
    this.#server = server;
    this.#probeMs = probeMs;
    this.#probing = this.#probe();
  }

  /** Starts a load balancer on loopback. `probeMs` limits a health probe. */
  static async start(probeMs = 1000): Promise<LoadBalancer> {
    // Deno's own server logs every interrupted answer.
    const server = createServer((request, response) => void balancer.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const balancer = new LoadBalancer(server, probeMs);
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  put(place: number, url: string): void {
    if (this.#backends[place]) this.#takeOut(this.#backends[place]);
    this.#backends[place] = { url, isUp: true, underWay: new Set() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort();
    for (const backend of this.#backends) this.#takeOut(backend);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#probing;
    this.#client.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url = "/" } = request;
    const headers = new Headers({ "accept-encoding": "identity" });
    for (const name of PASSED_ON) {
      const value = request.headers[name];
      if (typeof value === "string") headers.set(name, value);
    }
    const pieces: Uint8Array[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = pieces.length === 0 ? null : new Blob(pieces as BlobPart[]);
    const tried = new Set<Backend>();
    for (;;) {
      const backend = this.#next(tried);
      if (!backend) return void response.writeHead(503).end("No server is there.");
      tried.add(backend);
      const controller = new AbortController();
      const { signal } = controller;
      response.once("close", () => controller.abort());
      backend.underWay.add(controller);
      try {
        const init = { method, headers, body, signal, client: this.#client } as const;
        const answer = await fetch(`${backend.url}${url}`, init);
        response.writeHead(
          answer.status,
          [...answer.headers].filter(([name]) => !HOP_BY_HOP.has(name)).flat(),
        );
        response.flushHeaders();
        for await (const piece of answer.body ?? []) response.write(piece);
        return void response.end();
      } catch (error) {
        if (response.headersSent || response.destroyed) return void response.destroy();
        const isUnsent = error instanceof TypeError && /connect error/i.test(error.message);
        if (isUnsent) this.#takeOut(backend);
        if (!isUnsent && method !== "GET") {
          return void response.writeHead(502).end(`The server broke off: ${error}`);
        }
      } finally {
        backend.underWay.delete(controller);
      }
    }
  }

  #next(tried: ReadonlySet<Backend>): Backend | undefined {
    for (let step = 0; step < this.#backends.length; step++) {
      const backend = this.#backends[this.#turn++ % this.#backends.length]!;
      if (backend.isUp && !tried.has(backend)) return backend;
    }
    return undefined;
  }

  #takeOut(backend: Backend): void {
    backend.isUp = false;
    for (const controller of backend.underWay) controller.abort();
    backend.underWay.clear();
  }

  async #probe(): Promise<void> {
    while (!this.#closed.signal.aborted) {
      await Promise.all(this.#backends.map(async (backend) => {
        if (await this.#isWell(backend)) backend.isUp = true;
        else this.#takeOut(backend);
      }));
      await new Promise((resolve) => setTimeout(resolve, PROBE_EVERY_MS));
    }
  }

  async #isWell({ url }: Backend): Promise<boolean> {
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), this.#probeMs);
    try {
      const response = await fetch(`${url}/health`, { signal: controller.signal, client: this.#client });
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}
