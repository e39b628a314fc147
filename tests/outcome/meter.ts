import type { Usage } from "@tare/messages";
import { readUsage } from "@tare/wire";

/** What stands between an agent and a provider, and counts. */
export interface Meter extends AsyncDisposable {
  /** Its address, without a path. */
  readonly url: string;
  /** What the answers that came since were counted with. */
  readonly take: () => readonly Usage[];
}

/** What a meter goes by. */
export interface MeterOptions {
  /** Where requests go, without a path. */
  readonly target: string;
  /** The model that is asked, whatever name the agent gives it. */
  readonly model: string;
  /** What the provider knows one by. Default: nothing. */
  readonly key?: string | undefined;
  /** Why nothing more may be asked; nothing as long as it may. */
  readonly refuses: () => string | undefined;
}

/**
 * Passes requests of agents on to a provider, each for the same model and with the same key, and counts what the provider
 * says that they took: so all agents are measured in the same way.
 */
export function startMeter({ target, model, key, refuses }: MeterOptions): Meter {
  let usages: Usage[] = [];
  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    // A stream that was broken off on purpose says so.
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
    const body = method === "POST" ? asked(await request.json(), { model, path: pathname }) : null;
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

/** The body with this model, asked to say what it took. */
function asked(
  body: Readonly<Record<string, unknown>>,
  { model, path }: { readonly model: string; readonly path: string },
): string {
  const tells = path.endsWith("/chat/completions") && body.stream === true;
  return JSON.stringify({ ...body, model, ...(tells && { stream_options: { include_usage: true } }) });
}

/** What an answer says that it took: the last one of a stream. */
function usageIn(text: string): Usage | undefined {
  const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = ""]) => data);
  const told = (events.length > 0 ? events : [text]).flatMap((json) => {
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
  return told.at(-1);
}
