export type Passage =
  | { readonly type: "open" }
  /** Nothing arrives until it is open again, and then all of it, late. Who comes new may pass. */
  | { readonly type: "stuck"; readonly newPass?: boolean }
  /** Each piece takes so long. */
  | { readonly type: "slow"; readonly delayMs: number }
  /** All connections are closed, and new ones at once. */
  | { readonly type: "cut" };

export interface Tampering {
  /** Returns whether to cut the connection before or after a client's piece. */
  readonly onSent?: (piece: Uint8Array) => "cut before" | "cut after" | undefined;
  /** Returns the piece to forward in place of the server's; `undefined` ends the connection's output. */
  readonly onAnswer?: (piece: Uint8Array) => Uint8Array | undefined;
}

/** Proxy for a server's network, which can be cut, slowed down, or made to swallow everything. */
export class TcpProxy implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections = new Set<Deno.Conn>();
  readonly #target: () => Deno.ConnectOptions;
  readonly #accepting: Promise<void>;
  readonly #passing = new Set<Promise<void>>();
  readonly #tampering: Required<Tampering>;
  #passage: Passage = { type: "open" };
  /** Connections that existed when it got stuck. */
  #stuck: ReadonlySet<Deno.Conn> = new Set();
  #changed = Promise.withResolvers<void>();

  constructor(
    target: () => Deno.ConnectOptions,
    { onSent = () => undefined, onAnswer = (piece) => piece }: Tampering = {},
  ) {
    this.#target = target;
    this.#tampering = { onSent, onAnswer };
    this.#accepting = this.#accept();
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  set(passage: Passage): void {
    this.#passage = passage;
    this.#stuck = new Set(this.#connections);
    if (passage.type === "cut") this.#closeAll();
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

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
      const { onSent, onAnswer } = this.#tampering;
      let isMute = false;
      await Promise.all([
        this.#pass([from, to], async (piece) => {
          const cut = onSent(piece);
          if (cut !== "cut before") await writeAll(to, piece);
          if (cut) close(from);
        }),
        this.#pass([to, from], async (piece) => {
          const heard = isMute ? undefined : onAnswer(piece);
          isMute = heard === undefined;
          if (heard) await writeAll(from, heard);
        }),
      ]);
    } catch {
      close(from);
    }
    this.#connections.delete(from);
  }

  get #isCut(): boolean {
    return this.#passage.type === "cut";
  }

  #isStuck(connection: Deno.Conn): boolean {
    return this.#passage.type === "stuck" && (!this.#passage.newPass || this.#stuck.has(connection));
  }

  async #pass(
    [from, to]: readonly [Deno.Conn, Deno.Conn],
    write: (piece: Uint8Array) => Promise<void>,
  ): Promise<void> {
    const room = new Uint8Array(64 * 1024);
    try {
      for (;;) {
        const bytes = await from.read(room);
        if (bytes === null) break;
        while (this.#isStuck(from)) await this.#changed.promise;
        if (this.#passage.type === "slow") await pause(this.#passage.delayMs);
        await write(room.subarray(0, bytes));
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

async function writeAll(to: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await to.write(bytes.subarray(sent));
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
