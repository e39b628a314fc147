/** A way to a server that can be stopped, cut and slowed down. */
export interface Proxy {
  readonly port: number;
  /** Holds back all that is sent, in both directions, and new connections, until {@linkcode goOn}. */
  stop(): void;
  /** The same for the connections that there are: new ones pass. */
  stall(): void;
  goOn(): void;
  /** Cuts all connections that there are. */
  cut(): void;
  /** Ends it. */
  close(): Promise<void>;
}

/** What is done with what it is told of, instead of handing it on. */
export interface ProxyOptions {
  /** Asked of each piece that a client sends: whether its connection is cut before the server gets it, or after. */
  readonly onSent?: (piece: Uint8Array) => "cut before" | "cut after" | undefined;
  /** What a client gets in place of each piece that the server sends. */
  readonly onAnswer?: (piece: Uint8Array) => Uint8Array;
}

/** Lets everything through unless it is shut. */
interface Gate {
  shut?: PromiseWithResolvers<void>;
}

/** A proxy on a free port of loopback in front of a server. */
export function startProxy(
  target: { readonly port: number },
  { onSent = () => undefined, onAnswer = (piece) => piece }: ProxyOptions = {},
): Proxy {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections = new Set<Deno.Conn>();
  const running = new Set<Promise<void>>();
  /** What each connection waits for, and new ones too. */
  const gates = new Set<Gate>();
  const gateOfNew: Gate = {};
  const shut = (gate: Gate) => gate.shut ??= Promise.withResolvers();
  const goOn = () => {
    for (const gate of [gateOfNew, ...gates]) {
      gate.shut?.resolve();
      delete gate.shut;
    }
  };

  const pump = async (
    [from, to]: readonly [Deno.Conn, Deno.Conn],
    gate: Gate,
    pass: (bytes: Uint8Array) => Promise<void>,
  ) => {
    const buffer = new Uint8Array(2 ** 16);
    try {
      for (let count; (count = await from.read(buffer)) !== null;) {
        await gate.shut?.promise;
        await pass(buffer.subarray(0, count));
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
    await gateOfNew.shut?.promise;
    const gate: Gate = {};
    gates.add(gate);
    try {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: target.port });
      connections.add(server);
      await Promise.all([
        pump([client, server], gate, async (piece) => {
          const cut = onSent(piece);
          if (cut !== "cut before") await writeAll(server, piece);
          if (cut) drop(client);
        }),
        pump([server, client], gate, (piece) => writeAll(client, onAnswer(piece))),
      ]);
    } catch {
      drop(client);
    } finally {
      gates.delete(gate);
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
      for (const gate of [gateOfNew, ...gates]) shut(gate);
    },
    stall() {
      for (const gate of gates) shut(gate);
    },
    goOn,
    cut() {
      for (const connection of [...connections]) drop(connection);
    },
    async close() {
      listener.close();
      await accepting;
      self.cut();
      goOn();
      await Promise.all(running);
    },
  };
  return self;
}

async function writeAll(to: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await to.write(bytes.subarray(sent));
}
