import { ServerSentEventParseStream } from "@std/http";
import type { LoopEvent } from "@tare/loop";

/** A client of the agent server's own routes. */
export interface AgentClient {
  /** Makes a session and resolves to its id. */
  readonly createSession: () => Promise<string>;
  /** Starts a turn and yields its events as they happen. */
  readonly startTurn: (session: string, input: string) => AsyncGenerator<LoopEvent, void>;
  /** Cancels the running turn. */
  readonly cancel: (session: string) => Promise<void>;
}

/**
 * Makes a client of the agent server at this address, which sends `token` along if there is one. Its functions throw an `Error` with a sentence for people
 * when the server can't be reached or refuses.
 */
export function agentClient(url: string, token?: string): AgentClient {
  const post = async (path: string, body: unknown = {}): Promise<Response> => {
    const request = new Request(new URL(path, url), {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    let response: Response;
    try {
      response = await fetch(request);
    } catch (cause) {
      throw new Error(`Cannot reach the server at ${url}: start it with deno task start.`, { cause });
    }
    if (response.ok) return response;
    throw new Error(await refusal(response));
  };
  return {
    async createSession() {
      return (await (await post("/v1/sessions")).json()).id;
    },
    async *startTurn(session, input) {
      const response = await post(`/v1/sessions/${encodeURIComponent(session)}/turns`, { input });
      const messages = response.body?.pipeThrough(new ServerSentEventParseStream());
      for await (const { data } of messages ?? []) {
        if (data !== undefined) yield JSON.parse(data);
      }
    },
    async cancel(session) {
      await (await post(`/v1/sessions/${encodeURIComponent(session)}/cancel`)).body?.cancel();
    },
  };
}

async function refusal(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `The server answered ${response.status}: ${text.slice(0, 200)}`;
  }
}
