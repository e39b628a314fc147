/** Waits until nothing listens there. */
export async function closed(url: string): Promise<void> {
  const { hostname, port } = new URL(url);
  for (;;) {
    try {
      (await Deno.connect({ hostname, port: Number(port) })).close();
    } catch (error) {
      const { ConnectionRefused, ConnectionReset, NotConnected } = Deno.errors;
      if (error instanceof ConnectionRefused) return;
      // It was still in the queue when the listener closed.
      if (!(error instanceof ConnectionReset || error instanceof NotConnected)) throw error;
    }
  }
}
