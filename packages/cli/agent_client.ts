import { type Content, contentText } from "@tare/messages";
import type { Pin } from "@tare/planner";
import type { NumberedEvent } from "@tare/server/internal";
import {
  allCalls,
  type Asking,
  type Body,
  type Client,
  client,
  type MissesReport,
  type ResponseOf,
  type SessionSpend,
  type SpendReport,
} from "../server/client.ts";

import { counted } from "@tare/server/internal/format";
import { usdText } from "./dollars.ts";
import { findOwnerKey, ownerKeyIn } from "./server/find_owner_key.ts";
import { findServer, FOLDER_VARIABLES, USUAL_PORT } from "./server/noted_server.ts";
import { readSettingsFiles, withSettingsFiles } from "./server/settings_files.ts";
import { wholeNumber } from "./option.ts";

export { Reconnection, RefusedError } from "../server/client.ts";

export const AWAY = "The server can't be reached. Waiting for it; the turn continues once it is back.";

export interface ServerAddress {
  readonly url: string;
  readonly token?: string;
}

/** Host names of this machine, the only ones that get the owner's key. */
const THIS_MACHINE: readonly string[] = ["127.0.0.1", "localhost", "[::1]"];

/**
 * Returns the server at `url`, at TARE_HOST and TARE_PORT, or of the caller's folder, with TARE_TOKEN or, on this
 * machine, the owner's key.
 *
 * @throws {Error} if no address is set and no server runs for the folder.
 */
export async function serverAddress(
  read: (variable: string) => string | undefined,
  url?: string,
): Promise<ServerAddress> {
  const environment = Object.fromEntries(FOLDER_VARIABLES.map((name) => [name, read(name)]));
  const stated = url ?? statedAddress(read("TARE_HOST"), read("TARE_PORT"));
  if (stated === undefined) {
    const found = await findServer(environment);
    const token = read("TARE_TOKEN") || storedToken(environment, found.folder) || ownerKeyIn(found.data);
    return { url: found.url, ...(token && { token }) };
  }
  const { hostname = "", port } = URL.parse(stated) ?? {};
  const token = read("TARE_TOKEN") ||
    (THIS_MACHINE.includes(hostname)
      ? storedToken(environment) || findOwnerKey(Number(port) || 80, environment)
      : undefined);
  return { url: stated, ...(token && { token }) };
}

function storedToken(
  environment: Readonly<Record<string, string | undefined>>,
  folder?: string,
): string | undefined {
  return withSettingsFiles({}, readSettingsFiles(environment, folder)).TARE_TOKEN;
}

/**
 * Returns the address of TARE_HOST and TARE_PORT; undefined if neither is set or the port is 0.
 *
 * @throws {RangeError} if the port is invalid.
 */
export function statedAddress(host = "", port = ""): string | undefined {
  if (port !== "" && wholeNumber(0, 65_535).read(port) === undefined) {
    throw new RangeError(
      `Cannot find the server: TARE_PORT is ${JSON.stringify(port)}. Use a whole number from 0 to 65535.`,
    );
  }
  if (Number(port) === 0 && (host === "" || port !== "")) return undefined;
  return `http://${host.includes(":") ? `[${host}]` : host || "127.0.0.1"}:${port || USUAL_PORT}`;
}

/** Returns clients of the server at `url`, or else of the folder's server. @throws {Error} if none runs. */
export async function connect(url?: string) {
  const address = await serverAddress((name) => Deno.env.get(name), url);
  const api = apiClient(address.url, address.token);
  return { ...address, api, client: agentClient(address.url, address.token) };
}

function apiClient(url: string, token: string | undefined): Client {
  return client({
    url: url.replace(/\/+$/, ""),
    token: () => token,
    unreachable: `Cannot reach the server at ${url}. Start it with tare start, or deno task start.`,
  });
}

type Whole = Extract<ResponseOf<"GET /sessions/{id}">, { readonly kind: "agent" }>;
type Listed = Extract<ResponseOf<"GET /sessions">["sessions"][number], { readonly kind: "agent" }>;

export type SessionStatus = Pick<Whole, "status" | "lastEvent" | "approvals" | "plan"> & {
  readonly ledger: Pick<Whole["ledger"], "usd">;
};

export type SessionTitle = Pick<Listed, "id" | "createdAt" | "title" | "turns" | "ledger">;

export interface SessionPage {
  readonly sessions: readonly SessionTitle[];
  readonly hasMore: boolean;
}

export type Approval = ResponseOf<"GET /sessions/{id}/approvals">["approvals"][number];

export type ApprovalAnswer = Body<"POST /sessions/{id}/approvals/{approval}">;

export type AgentInfo = Pick<ResponseOf<"GET /agent">, "workspace" | "model" | "windowTokens" | "forwardsTo">;

export type ChosenSettings = Body<"POST /sessions">;

const SETTINGS = [
  "instructions",
  "model",
  "effort",
  "tools",
  "metadata",
  "budget",
  "approvalRules",
] as const satisfies readonly (keyof ChosenSettings)[];

export type ListedCall = ResponseOf<"GET /sessions/{id}/calls">["calls"][number];

/** Length of a shortened session id. */
export const SHORT_ID = 8;

const ID_LENGTH = 36;

const MAX_MATCHES = 10;

/** Returns a time in the local time zone, such as `2026-01-31 14:05`. */
function localTime(time: string): string {
  return new Date(time).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" });
}

/** Returns a session of a list in one line: the beginning of its id, time, turns, cost and title. */
export function sessionRow({ id, createdAt, title, turns, ledger: { usd } }: SessionTitle): string {
  const cost = usd === undefined ? "" : `, ${usdText(usd)}`;
  return `${id.slice(0, SHORT_ID)}  ${localTime(createdAt)}  ${counted(turns, "turn")}${cost}  ${title}`;
}

export type AgentClient = ReturnType<typeof agentClient>;

/**
 * Returns a client of the server. Its methods throw a `RefusedError` for users, with status 0 if the server can't be
 * reached.
 */
export function agentClient(url: string, token?: string) {
  const api = apiClient(url, token);
  const list = async (
    query: { readonly limit?: number; readonly search?: string; readonly after?: string },
  ) => {
    const { sessions, hasMore } = await api.json("GET /sessions", { query: { ...query, kind: "agent" } });
    return { sessions: sessions.filter((session) => session.kind === "agent"), hasMore };
  };
  const session = async (id: string): Promise<Whole> => {
    const reported = await api.json("GET /sessions/{id}", { path: { id } });
    if (reported.kind === "agent") return reported;
    throw new Error(`Cannot use session ${id}: it belongs to another agent. Continue it there.`);
  };
  return {
    createSession: async (settings: ChosenSettings = {}) =>
      (await api.json("POST /sessions", { body: settings })).id,
    settings: async (id: string): Promise<ChosenSettings> => {
      const reported = await session(id);
      return Object.fromEntries(SETTINGS.map((name) => [name, reported[name]]));
    },
    /** Starts a turn. Resolves to its events. `unattended`: approvals won't be answered. */
    startTurn: (
      id: string,
      input: Content,
      { unattended = false, evictNow = false, effort }: {
        readonly unattended?: boolean;
        readonly evictNow?: boolean;
        readonly effort?: string | undefined;
      } = {},
    ): Promise<AsyncIterable<NumberedEvent>> =>
      api.events("POST /sessions/{id}/turns", {
        path: { id },
        body: {
          ...{ input, unattended },
          ...(evictNow && { evictNow }),
          ...(effort !== undefined && { effort }),
        },
      }),
    fork: (id: string, before?: number) =>
      api.json("POST /sessions/{id}/fork", {
        path: { id },
        body: before === undefined ? {} : { before },
      }),
    rename: async (id: string, title: string) =>
      (await api.json("POST /sessions/{id}/title", { path: { id }, body: { title } })).title,
    findFiles: async (search: string, limit: number): Promise<readonly string[]> =>
      (await api.json("GET /agent/files", { query: { search, limit } })).files,
    calls: (id: string): Promise<readonly ListedCall[]> => allCalls(api, id),
    choose: (id: string, body: Body<"POST /sessions/{id}/model">) =>
      api.json("POST /sessions/{id}/model", { path: { id }, body }),
    spend: (query: NonNullable<Asking<"GET /spend">["query"]>): Promise<SpendReport> =>
      api.json("GET /spend", { query }),
    misses: (query: NonNullable<Asking<"GET /misses">["query"]>): Promise<MissesReport> =>
      api.json("GET /misses", { query }),
    sessionSpend: (id: string): Promise<SessionSpend> =>
      api.json("GET /sessions/{id}/spend", { path: { id } }),
    /** Resolves to the events after this number, until no turn runs and no approval is pending. */
    follow: (id: string, after: number): Promise<AsyncIterable<NumberedEvent>> =>
      api.events("GET /sessions/{id}/events", { path: { id }, query: { after } }),
    approvals: async (id: string) =>
      (await api.json("GET /sessions/{id}/approvals", { path: { id } })).approvals,
    async answer(id: string, approval: Pick<Approval, "id">, answer: ApprovalAnswer): Promise<void> {
      const path = { id, approval: approval.id };
      await api.json("POST /sessions/{id}/approvals/{approval}", { path, body: answer });
    },
    session: (id: string): Promise<SessionStatus> => session(id),
    async deleteSession(id: string): Promise<void> {
      await (await api.send("DELETE /sessions/{id}", { path: { id } })).body?.cancel();
    },
    models: async () => (await api.json("GET /agent/models")).models,
    agent: (): Promise<AgentInfo> => api.json("GET /agent"),
    async cancel(id: string): Promise<void> {
      await api.json("POST /sessions/{id}/cancel", { path: { id } });
    },
    /**
     * Resolves to the id of a session, of which `given` may be the beginning.
     *
     * @throws {Error} if none or several begin so.
     */
    async findSession(given: string): Promise<string> {
      if (given.length >= ID_LENGTH) return given;
      const found: string[] = [];
      const rows: string[] = [];
      for (let after: string | undefined, more = true; more && found.length <= MAX_MATCHES;) {
        const { sessions, hasMore } = await api.json("GET /sessions", { query: after ? { after } : {} });
        for (const session of sessions) {
          if (session.id === given) return given;
          if (!session.id.startsWith(given)) continue;
          found.push(session.id);
          rows.push(session.kind === "agent" ? sessionRow(session) : `${session.id}  ${session.title}`);
        }
        [after, more] = [sessions.at(-1)?.id, hasMore];
      }
      const [only] = found;
      if (found.length === 1 && only !== undefined) return only;
      throw new Error(
        found.length === 0
          ? `Cannot find session ${given}: there is no such session.`
          : `Cannot choose a session: several ids begin with ${given}. Use a longer one:\n${rows.join("\n")}`,
      );
    },
    listSessions: async (search: string): Promise<readonly SessionTitle[]> =>
      (await list({ limit: 20, search })).sessions,
    /** Resolves to a page of sessions, newest first, after the session with the id `after`. */
    pageOfSessions: (after?: string): Promise<SessionPage> => list(after === undefined ? {} : { after }),
    async questions(id: string): Promise<readonly string[]> {
      const { messages } = await session(id);
      return messages.filter(({ role }) => role === "user")
        .map(({ content }) => contentText(content));
    },
    async lastQuestion(
      id: string,
    ): Promise<{ readonly place: number; readonly content: Content } | undefined> {
      const { messages } = await session(id);
      const place = messages.findLastIndex(({ role }) => role === "user");
      const message = messages[place];
      return message?.role === "user" ? { place, content: message.content } : undefined;
    },
    /** Resolves to the text of a tool result, by default the last; undefined if there is none at `place`. */
    async resultAt(id: string, place?: number): Promise<string | undefined> {
      const { messages } = await session(id);
      const result = place === undefined ? messages.findLast(({ role }) => role === "tool") : messages[place];
      return result?.role === "tool" ? contentText(result.content) : undefined;
    },
    quote: (id: string) => api.json("GET /sessions/{id}/quote", { path: { id } }),
    prompt: (id: string) => api.json("GET /sessions/{id}/prompt", { path: { id } }),
    pin: (id: string, place: number, wish: Pin["wish"]) =>
      api.json("POST /sessions/{id}/pins", { path: { id }, body: { place, wish } }),
    changes: async (id: string) => (await api.json("GET /sessions/{id}/changes", { path: { id } })).turns,
    undo: (id: string, body: Body<"POST /sessions/{id}/undo">) =>
      api.json("POST /sessions/{id}/undo", { path: { id }, body }),
    redo: (id: string, body: Body<"POST /sessions/{id}/redo">) =>
      api.json("POST /sessions/{id}/redo", { path: { id }, body }),
    keepAlive: (id: string, minutes: number) =>
      api.json("POST /sessions/{id}/keep_alive", { path: { id }, body: { minutes } }),
    exportSession: async (id: string, format: "lines" | "html" = "lines") =>
      bodyOf(await api.send("GET /sessions/{id}/export", { path: { id }, query: { format } })),
    /** Imports a session from such lines, or one session per line. Resolves to the ids. */
    async importSessions(lines: Uint8Array<ArrayBuffer>): Promise<readonly string[]> {
      const { sessions } = await api.json("POST /sessions/import", { lines });
      return sessions.map(({ id }) => id);
    },
    addKey: async (key: Body<"POST /keys">) => (await api.json("POST /keys", { body: key })).secret,
    keys: async () => (await api.json("GET /keys")).keys,
    async removeKey(name: string): Promise<void> {
      await (await api.send("DELETE /keys/{name}", { path: { name } })).body?.cancel();
    },
    /** Resolves to the server's data as a database file; incomplete if the stream fails. */
    backUp: async () => bodyOf(await api.send("GET /backup")),
  };
}

function bodyOf({ body }: Response): ReadableStream<Uint8Array<ArrayBuffer>> {
  return body ?? new Blob().stream();
}
