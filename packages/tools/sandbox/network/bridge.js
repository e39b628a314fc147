/**
 * In the sandbox, which has no network but its own loopback: takes connections on the proxy's port there, and carries each to
 * the proxy's socket. Its one argument is that socket's path. It says a word once it listens.
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
