/**
 * The bare proxy of `bench:gateway`, in a process of its own: passes bodies on as they come, both ways, and knows
 * nothing of them. What a hop costs. Takes the upstream's base URL, prints its port.
 *
 * @module
 */
// deno-lint-ignore-file no-console

const [baseURL = ""] = Deno.args;
const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
  const path = new URL(request.url).pathname.replace(/^\/v1/, "");
  const { method, body } = request;
  const headers = { "content-type": "application/json" };
  const response = await fetch(baseURL + path, { method, headers, ...(body && { body }) });
  return new Response(response.body, { status: response.status, headers: response.headers });
});
console.log(server.addr.port);
