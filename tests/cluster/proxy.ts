/** A way to a server that can be stopped, cut and slowed down. */
export interface Proxy {
  readonly port: number;
  /** Holds back all that is sent, in both directions, and new connections, until {@linkcode goOn}. */
  stop(): void;
  goOn(): void;
  /** Cuts all connections that there are. */
  cut(): void;
  /** Ends it. */
  close(): Promise<void>;
}

/** Told of each piece that a client sends, before the server gets it: to cut in the middle of something. */
export type OnSent = (bytes: Uint8Array) => void;

/** A proxy on a free port of loopback in front of a server. */
export function startProxy(target: { readonly port: number }, onSent: OnSent = () => {}): Proxy {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections = new Set<Deno.Conn>();
  const running = new Set<Promise<void>>();
  let gate = Promise.withResolvers<void>();
  gate.resolve();

  const pump = async (from: Deno.Conn, to: Deno.Conn, look: OnSent) => {
    const buffer = new Uint8Array(2 ** 16);
    try {
      for (let count; (count = await from.read(buffer)) !== null;) {
        await gate.promise;
        const bytes = buffer.subarray(0, count);
        look(bytes);
        for (let sent = 0; sent < count;) sent += await to.write(bytes.subarray(sent));
      }
    } catch {
      // Cut, by whichever side.
    } finally {
      for (const end of [from, to]) drop(end);
    }
  };
  const drop = (connection: Deno.Conn) => {
    if (connections.delete(connection)) connection.close();
  };
  const serve = async (client: Deno.Conn) => {
    connections.add(client);
    await gate.promise;
    try {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: target.port });
      connections.add(server);
      await Promise.all([pump(client, server, onSent), pump(server, client, () => {})]);
    } catch {
      drop(client);
    }
  };
  const accepting = (async () => {
    for await (const client of listener) {
      const done = serve(client).finally(() => running.delete(done));
      running.add(done);
    }
  })();
  const self: Proxy = {
    port: listener.addr.port,
    stop() {
      gate.resolve();
      gate = Promise.withResolvers();
    },
    goOn: () => gate.resolve(),
    cut() {
      for (const connection of [...connections]) drop(connection);
    },
    async close() {
      listener.close();
      await accepting;
      self.cut();
      gate.resolve();
      await Promise.all(running);
    },
  };
  return self;
}
