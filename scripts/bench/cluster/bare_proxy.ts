/**
 * Passes requests on to the provider of this address, and its replies back, and knows nothing of them.
 *
 *     bare_proxy.ts PROVIDER_URL
 *
 * @module
 */
// deno-lint-ignore-file no-console

const [provider = ""] = Deno.args;

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`proxy listens on http://127.0.0.1:${port}/v1`),
}, async ({ url, method, body }) => {
  const path = new URL(url).pathname.replace(/^\/v1/, "");
  const headers = { "content-type": "application/json" };
  const response = await fetch(provider + path, { method, headers, ...(body && { body }) });
  return new Response(response.body, response);
});
