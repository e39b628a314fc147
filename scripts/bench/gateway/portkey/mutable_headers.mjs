// Portkey's gateway adds headers to the provider's answer, which Node's `fetch` doesn't allow with the versions of its
// dependencies that npm installs: every stream would end with status 500.
const { fetch } = globalThis;
globalThis.fetch = async (...request) => {
  const { body, status, statusText, headers } = await fetch(...request);
  return new Response(body, { status, statusText, headers: new Headers(headers) });
};
