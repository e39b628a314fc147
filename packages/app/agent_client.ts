import { ServerSentEventParseStream } from "@std/http";
import type { TurnLedger } from "@tare/loop";
import { type Content, contentText, type Message } from "@tare/messages";
import type { Quote, Wish } from "@tare/planner";
import type { PinReport, PromptReport } from "@tare/conversation/report";
import type { NumberedEvent } from "@tare/server";

/** Where the server is that a command talks to, and what its requests must carry. */
export interface ServerAddress {
  readonly url: string;
  /** The bearer token, if there is one. */
  readonly token?: string;
}

/** The server by `url`, or else by TARE_HOST and TARE_PORT, as `read` gives them; the token is TARE_TOKEN. */
export function serverAddress(read: (variable: string) => string | undefined, url?: string): ServerAddress {
  const host = read("TARE_HOST") || "127.0.0.1";
  const port = read("TARE_PORT") || "8787";
  const token = read("TARE_TOKEN");
  return {
    url: url ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ...(token && { token }),
  };
}

/** What the server refused, with the status that it answered with. */
export class RefusedError extends Error {
  /** The HTTP status. */
  readonly status: number;

  /** An error of this status with a sentence for people. */
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A session in a list, as far as people are shown it. */
export interface ListedSession {
  readonly id: string;
  /** What the user said first. */
  readonly title: string;
  readonly turns: number;
  readonly ledger: TurnLedger;
}

/** A call that waits for somebody to say whether it may run. */
export interface Approval {
  readonly callId: string;
  /** The tool that would run. */
  readonly name: string;
  /** What it would run with, as JSON. */
  readonly arguments: string;
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** When it is denied if nobody answers, likewise. */
  readonly expiresAtMs: number;
}

/** What somebody says to that. */
export interface ApprovalAnswer {
  readonly decision: "allow" | "deny" | "always";
  /** Why, for the model. */
  readonly reason?: string;
}

/** A page of the list of sessions. */
export interface SessionPage {
  readonly sessions: readonly ListedSession[];
  readonly hasMore: boolean;
}

/** What the agent is. */
export interface AgentInfo {
  /** The folder that its tools work in, where the server tells. */
  readonly workspace?: string;
  /** How much a prompt may hold. */
  readonly windowTokens: number;
}

/** How far a session is. */
export interface SessionState {
  readonly status: "idle" | "running";
  /** Number of its newest event; 0 if there is none. */
  readonly lastEvent: number;
  readonly ledger: Pick<TurnLedger, "usd">;
  /** What waits for an answer. */
  readonly approvals: readonly Approval[];
}

/** A client of the agent server's own routes. */
export interface AgentClient {
  /** Makes a session and resolves to its id. */
  readonly createSession: () => Promise<string>;
  /** Starts a turn. Resolves once it runs, to its events as they happen. Default: somebody will answer what it asks. */
  readonly startTurn: (
    session: string,
    input: Content,
    options?: { readonly unattended: boolean },
  ) => Promise<AsyncIterable<NumberedEvent>>;
  /** The events behind this number, for as long as something runs or is asked. */
  readonly follow: (session: string, after: number) => Promise<AsyncIterable<NumberedEvent>>;
  /** Number of the newest event. */
  readonly lastEvent: (session: string) => Promise<number>;
  /** The calls that wait for somebody to say whether they may run. */
  readonly approvals: (session: string) => Promise<readonly Approval[]>;
  /** Says whether one may. */
  readonly answer: (session: string, approval: Approval, answer: ApprovalAnswer) => Promise<void>;
  /** How far a session is, and whether a turn runs in it. */
  readonly session: (session: string) => Promise<SessionState>;
  /** Cancels what runs in a session and forgets it. */
  readonly deleteSession: (session: string) => Promise<void>;
  /** What the agent is. */
  readonly agent: () => Promise<AgentInfo>;
  /** Cancels the running turn. */
  readonly cancel: (session: string) => Promise<void>;
  /** The newest sessions whose texts hold `search`, at most 20. */
  readonly listSessions: (search: string) => Promise<readonly ListedSession[]>;
  /** All sessions page by page, the newest first: those behind the one with the id `after`, or the first. */
  readonly pageOfSessions: (after?: string) => Promise<SessionPage>;
  /** What the user said in a session, the oldest first. */
  readonly questions: (session: string) => Promise<readonly string[]>;
  /** What the next request would cost. */
  readonly quote: (session: string) => Promise<Quote>;
  /** What the model sees. */
  readonly prompt: (session: string) => Promise<PromptReport>;
  /** Asks that the message at this place comes back and stays, or leaves. */
  readonly pin: (session: string, place: number, wish: Wish) => Promise<PinReport>;
  /** Gives a session's messages, one a line of JSON. */
  readonly exportSession: (session: string) => Promise<ReadableStream<Uint8Array>>;
  /** Makes sessions of such lines, or of lines that each hold one, and resolves to their ids. */
  readonly importSessions: (lines: Uint8Array<ArrayBuffer>) => Promise<readonly string[]>;
  /** All that the server keeps, as a file. It isn't whole if the stream fails. */
  readonly backUp: () => Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
}

/**
 * Makes a client of the agent server at this address, which sends `token` along if there is one. Its functions throw
 * an `Error` with a sentence for people when the server can't be reached, and a {@linkcode RefusedError} when it refuses.
 */
export function agentClient(url: string, token?: string): AgentClient {
  const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    let response: Response;
    try {
      response = await fetch(new URL(path, url), { ...init, headers });
    } catch (cause) {
      throw new Error(`Cannot reach the server at ${url}: start it with tare start, or deno task start.`, {
        cause,
      });
    }
    if (response.ok) return response;
    throw new RefusedError(response.status, await toldError(response));
  };
  const post = (path: string, body: unknown = {}) =>
    send(path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const at = (session: string, rest = "") => `/v1/sessions/${encodeURIComponent(session)}${rest}`;
  const get = async (path: string) => await (await send(path)).json();
  return {
    async createSession() {
      return (await (await post("/v1/sessions")).json()).id;
    },
    async listSessions(search) {
      return (await get(`/v1/sessions?${new URLSearchParams({ limit: "20", search })}`)).sessions;
    },
    pageOfSessions: (after) =>
      get(`/v1/sessions?${new URLSearchParams(after === undefined ? {} : { after })}`),
    async questions(session) {
      const { messages }: { messages: readonly Message[] } = await get(at(session));
      return messages.filter(({ role }) => role === "user").map(({ content }) => contentText(content));
    },
    quote: (session) => get(at(session, "/quote")),
    prompt: (session) => get(at(session, "/prompt")),
    async pin(session, place, wish) {
      return await (await post(at(session, "/pins"), { place, wish })).json();
    },
    async startTurn(session, input, { unattended } = { unattended: false }) {
      return readEvents(await post(at(session, "/turns"), { input, unattended }));
    },
    async follow(session, after) {
      return readEvents(await send(at(session, `/events?after=${after}`)));
    },
    async lastEvent(session) {
      return (await get(at(session))).lastEvent;
    },
    async approvals(session) {
      return (await get(at(session, "/approvals"))).approvals;
    },
    async answer(session, { callId, askedAtMs }, answer) {
      const path = at(session, `/approvals/${encodeURIComponent(callId)}`);
      await (await post(path, { ...answer, askedAtMs })).body?.cancel();
    },
    session: (session) => get(at(session)),
    async deleteSession(session) {
      await (await send(at(session), { method: "DELETE" })).body?.cancel();
    },
    agent: () => get("/v1/agent"),
    async cancel(session) {
      await (await post(at(session, "/cancel"))).body?.cancel();
    },
    async exportSession(session) {
      const { body } = await send(at(session, "/export"));
      return body ?? new Blob().stream();
    },
    async importSessions(lines) {
      const headers = { "content-type": "application/x-ndjson" };
      const response = await send("/v1/sessions/import", { method: "POST", headers, body: lines });
      const { sessions }: { sessions: readonly { readonly id: string }[] } = await response.json();
      return sessions.map(({ id }) => id);
    },
    async backUp() {
      const { body } = await send("/v1/backup");
      return body ?? new Blob().stream();
    },
  };
}

async function* readEvents({ body }: Response): AsyncGenerator<NumberedEvent, void> {
  for await (const { id, data, event } of body?.pipeThrough(new ServerSentEventParseStream()) ?? []) {
    if (data === undefined) continue;
    // What failed when it was too late for a status.
    if (event === "error") throw new Error(JSON.parse(data).error.message);
    yield { number: Number(id), event: JSON.parse(data) };
  }
}

async function toldError(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `The server answered ${response.status}: ${text.slice(0, 200)}`;
  }
}
