import type { Usage } from "@tare/messages";
import { readUsage } from "@tare/wire";

export interface Meter extends AsyncDisposable {
  readonly url: string;
  readonly take: () => readonly Usage[];
}

export interface MeterOptions {
  readonly target: string;
  /** Model to call, whatever name the agent sends. */
  readonly model: string;
  readonly key?: string | undefined;
  /** Returns why no further request is allowed; `undefined` if it is. */
  readonly refuses: () => string | undefined;
}

/**
 * Starts a proxy that calls a provider for any agent with the same model and key, and counts the provider's
 * usage.
 */
export function startMeter({ target, model, key, refuses }: MeterOptions): Meter {
  let usages: Usage[] = [];
  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    // Intentionally interrupted streams also report errors.
    onError: () => new Response(null, { status: 502 }),
  }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const refused = refuses();
    if (refused !== undefined) {
      await request.body?.cancel();
      return Response.json({ error: { message: refused, type: "insufficient_quota" } }, { status: 402 });
    }
    if (request.headers.get("upgrade")) return new Response(null, { status: 426 });
    const headers = new Headers(request.headers);
    for (const name of ["host", "connection", "content-length"]) headers.delete(name);
    headers.set("accept-encoding", "identity");
    if (key !== undefined) headers.set("authorization", `Bearer ${key}`);
    const { method, signal } = request;
    const body = method === "POST" ? response(await request.json(), { model, path: pathname }) : null;
    const answer = await fetch(`${target}${pathname}${search}`, { method, headers, body, signal });
    const counts = method === "POST" && answer.ok && answer.body !== null;
    return new Response(counts ? ReadableStream.from(counted(answer.body!)) : answer.body, {
      status: answer.status,
      headers: answer.headers,
    });
  });

  async function* counted(body: ReadableStream<Uint8Array<ArrayBuffer>>) {
    const decoder = new TextDecoder();
    let text = "";
    for await (const piece of body) {
      text += decoder.decode(piece, { stream: true });
      yield piece;
    }
    const usage = usageIn(text);
    if (usage) usages.push(usage);
  }

  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    take() {
      const taken = usages;
      usages = [];
      return taken;
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns the body with this model, with usage requested. */
function response(
  body: Readonly<Record<string, unknown>>,
  { model, path }: { readonly model: string; readonly path: string },
): string {
  const reportsUsage = path.endsWith("/chat/completions") && body.stream === true;
  return JSON.stringify({ ...body, model, ...(reportsUsage && { stream_options: { include_usage: true } }) });
}

function usageIn(text: string): Usage | undefined {
  const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => data);
  const usage = (events.length > 0 ? events : [text]).flatMap((json) => {
    const event = JSON.parse(json);
    const usage = event.usage ?? event.response?.usage;
    if (!usage) return [];
    const { input_tokens: prompt, output_tokens: output, input_tokens_details: details } = usage;
    return readUsage(
      prompt === undefined
        ? usage
        : { prompt_tokens: prompt, completion_tokens: output, prompt_tokens_details: details },
    ) ?? [];
  });
  return usage.at(-1);
}
