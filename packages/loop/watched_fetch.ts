/**
 * A `fetch` for streamed chat completions: calls `progress` whenever bytes arrive, comments of the event stream
 * included, with which providers keep a connection alive while the model is busy; and turns the JSON body of a server
 * that doesn't stream into a stream of one event.
 */
export function watchedFetch(fetch: typeof globalThis.fetch, progress: () => void): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    progress();
    if (!response.ok || !response.body) return response;
    const { status, headers } = response;
    if (/[/+]json\b/.test(headers.get("content-type") ?? "")) {
      // A line break in JSON stands between tokens, never inside one.
      const json = (await response.text()).replaceAll(/[\r\n]/g, " ");
      return new Response(`data: ${json}\n\n`, { status, headers });
    }
    const watched = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(bytes, controller) {
        progress();
        controller.enqueue(bytes);
      },
    });
    return new Response(response.body.pipeThrough(watched), { status, headers });
  };
}
