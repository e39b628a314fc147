/** How a connection passes on what it is given. */
export type Passage =
  | { readonly type: "open" }
  /** Nothing arrives until it is open again, and then all of it, late. */
  | { readonly type: "stuck" }
  /** Each piece takes so long. */
  | { readonly type: "slow"; readonly delayMs: number }
  /** All connections are closed, and new ones at once. */
  | { readonly type: "cut" };

/** A stretch of network in front of a server, which can be cut, slow, or swallow everything. */
export class TcpProxy implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections = new Set<Deno.Conn>();
  readonly #target: () => Deno.ConnectOptions;
  readonly #accepting: Promise<void>;
  readonly #passing = new Set<Promise<void>>();
  #passage: Passage = { type: "open" };
  #changed = Promise.withResolvers<void>();

  /** `target` is asked for each new connection. */
  constructor(target: () => Deno.ConnectOptions) {
    this.#target = target;
    this.#accepting = this.#accept();
  }

  /** Where it listens, on loopback. */
  get port(): number {
    return this.#listener.addr.port;
  }

  /** Changes how it passes things on. */
  set(passage: Passage): void {
    this.#passage = passage;
    if (passage.type === "cut") this.#closeAll();
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Closes everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.set({ type: "cut" });
    await this.#accepting;
    this.#closeAll();
    await Promise.all(this.#passing);
  }

  async #accept(): Promise<void> {
    for await (const from of this.#listener) {
      const passing: Promise<void> = this.#join(from).finally(() => this.#passing.delete(passing));
      this.#passing.add(passing);
    }
  }

  async #join(from: Deno.Conn): Promise<void> {
    if (this.#passage.type === "cut") return from.close();
    this.#connections.add(from);
    try {
      const to = await Deno.connect(this.#target());
      this.#connections.add(to);
      if (this.#isCut) this.#closeAll();
      await Promise.all([this.#pass(from, to), this.#pass(to, from)]);
    } catch {
      // Nobody listens there.
      close(from);
    }
    this.#connections.delete(from);
  }

  get #isCut(): boolean {
    return this.#passage.type === "cut";
  }

  async #pass(from: Deno.Conn, to: Deno.Conn): Promise<void> {
    const room = new Uint8Array(64 * 1024);
    try {
      for (;;) {
        const bytes = await from.read(room);
        if (bytes === null) break;
        while (this.#passage.type === "stuck") await this.#changed.promise;
        if (this.#passage.type === "slow") await pause(this.#passage.delayMs);
        for (let at = 0; at < bytes;) at += await to.write(room.subarray(at, bytes));
      }
    } catch {
      // One of them was closed: so is the other.
    }
    close(from);
    close(to);
    this.#connections.delete(from);
    this.#connections.delete(to);
  }

  #closeAll(): void {
    for (const connection of this.#connections) close(connection);
    this.#connections.clear();
  }
}

function close(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch {
    // It is closed.
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
