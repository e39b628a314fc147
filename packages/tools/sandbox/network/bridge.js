/**
 * Runs in the sandbox, which has only a loopback interface: accepts connections on the proxy's port and forwards each to
 * the proxy's socket. Argument: the socket's path. Prints a line once it listens.
 *
 * @module
 */
// deno-lint-ignore-file no-console
const [path] = Deno.args;
const listener = Deno.listen({ hostname: "127.0.0.1", port: 3128 });
console.log("listens");
Deno.stdout.close();
for await (const client of listener) {
  const carry = async () => {
    const proxy = await Deno.connect({ transport: "unix", path });
    await Promise.allSettled([
      client.readable.pipeTo(proxy.writable),
      proxy.readable.pipeTo(client.writable),
    ]);
  };
  carry().catch(() => client.close());
}
