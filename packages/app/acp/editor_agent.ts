import {
  agent,
  type AgentApp,
  type AgentConnection,
  type ListSessionsResponse,
  methods,
  type NewSessionRequest,
  PROTOCOL_VERSION,
  RequestError,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { isAbsolute, relative } from "@std/path";
import { type AgentClient, RefusedError } from "../agent_client.ts";
import { type Editor, EditorSession, INTERNAL_ERROR } from "./editor_session.ts";
import { promptContent } from "./prompt_content.ts";

/** What {@linkcode editorAgent} works with. */
interface EditorAgentOptions {
  /** The server's. */
  readonly client: AgentClient;
  /** Where the server is. */
  readonly url: string;
  /** Where a folder really is, or the folder as it stands where that can't be told. */
  readonly realPath: (folder: string) => Promise<string>;
}

/** The server's agent as an agent of the Agent Client Protocol. */
interface EditorAgent {
  /** To be connected to an editor, once. */
  readonly app: AgentApp;
  /** Cancels the turns that the editor has begun; what was asked stays open for whoever answers. Never rejects. */
  readonly leave: () => Promise<void>;
}

const [INVALID_PARAMS, NO_RESOURCE] = [-32602, -32002];

/** Makes an agent for an editor out of a client of the agent server. */
export function editorAgent({ client, url, realPath }: EditorAgentOptions): EditorAgent {
  const sessions = new Map<string, EditorSession>();
  let hasNotices = false;
  let told = 0;
  let editor: AgentConnection | undefined;
  const show = async (sessionId: string, update: SessionUpdate) => {
    await editor?.client.notify(methods.client.session.update, {
      sessionId,
      update: update.sessionUpdate === "notice" && !hasNotices ? asMessage(update.title, told++) : update,
    });
  };

  const ask: Editor["ask"] = async (request, cancellationSignal) => {
    if (!editor) throw new Error("The editor has gone.");
    const options = { cancellationSignal, stopWaitingOnCancel: true };
    return await editor.client.request(methods.client.session.requestPermission, request, options);
  };

  /** A session in the folder that the editor has open. @throws {RequestError} if the server works elsewhere. */
  const open = async (
    { cwd, mcpServers = [] }: Partial<NewSessionRequest>,
    find: () => Promise<string>,
  ): Promise<readonly [string, EditorSession]> => {
    const agent = await client.agent();
    const { workspace } = agent;
    const remarks: string[] = [];
    if (workspace !== undefined && cwd !== undefined) {
      const remark = placeRemark(await realPath(cwd), { workspace, url });
      if (remark !== undefined) remarks.push(remark);
    }
    if (mcpServers.length > 0) {
      const names = mcpServers.map(({ name }) => name).join(", ");
      remarks.push(
        `The editor's MCP servers (${names}) are not used here: the tools are those that the server at ${url} has.`,
      );
    }
    const id = await find();
    const session = new EditorSession(id, { client, editor: { show, ask }, agent });
    session.remarks.push(...remarks);
    sessions.set(id, session);
    return [id, session];
  };
  const known = async (id: string) => sessions.get(id) ?? (await open({}, () => Promise.resolve(id)))[1];

  const app = agent({ name: "tare" })
    .onConnect((connection) => void (editor = connection))
    .onRequest(methods.agent.initialize, ({ params: { clientCapabilities } }) => {
      hasNotices = Boolean(clientCapabilities?.session?.notices);
      return {
        protocolVersion: PROTOCOL_VERSION,
        agentInfo: { name: "tare", title: "Tare", version: "0.1.0" },
        agentCapabilities: {
          loadSession: true,
          promptCapabilities: { image: true, audio: false, embeddedContext: true },
          mcpCapabilities: { http: false, sse: false },
          sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
        },
        authMethods: [],
      };
    })
    .onRequest(
      methods.agent.session.new,
      said(async (params: NewSessionRequest) => {
        const [sessionId] = await open(params, () => client.createSession());
        return { sessionId };
      }),
    )
    .onRequest(
      methods.agent.session.load,
      said(async (params) => {
        const [, session] = await open(params, () => Promise.resolve(params.sessionId));
        await session.replay();
        return {};
      }),
    )
    .onRequest(
      methods.agent.session.resume,
      said(async (params) => {
        const [, session] = await open(params, () => Promise.resolve(params.sessionId));
        await session.resume();
        return {};
      }),
    )
    .onRequest(
      methods.agent.session.list,
      said(async ({ cwd, cursor }): Promise<ListSessionsResponse> => {
        const { workspace = cwd ?? "/" } = await client.agent();
        if (cwd && await realPath(cwd) !== workspace) return { sessions: [] };
        const { sessions: page, hasMore } = await client.pageOfSessions(cursor ?? undefined);
        return {
          sessions: page.map(({ id, title }) => ({
            sessionId: id,
            cwd: workspace,
            ...(title !== "" && { title }),
          })),
          ...(hasMore && { nextCursor: page.at(-1)?.id ?? null }),
        };
      }),
    )
    .onRequest(
      methods.agent.session.close,
      said(async ({ sessionId }) => {
        await sessions.get(sessionId)?.cancel();
        sessions.delete(sessionId);
      }),
    )
    .onRequest(
      methods.agent.session.delete,
      said(async ({ sessionId }) => {
        await client.deleteSession(sessionId);
        sessions.delete(sessionId);
      }),
    )
    .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, signal }) => {
      const play = said(async () => {
        const session = await known(sessionId);
        const content = promptContent(prompt, (await client.agent()).workspace);
        if (content.length === 0) throw new RangeError("Cannot take the prompt: it is empty.");
        // It is aborted by the editor's word, and when the editor has gone.
        const cancel = () => void (editor?.signal.aborted || session.cancel().catch(() => {}));
        signal.addEventListener("abort", cancel, { once: true });
        return { stopReason: await session.prompt(content) };
      });
      return await play({ params: undefined });
    })
    .onNotification(methods.agent.session.cancel, async ({ params: { sessionId } }) => {
      // What can't be told the server is told by the prompt's answer.
      await sessions.get(sessionId)?.cancel().catch(() => {});
    });
  return {
    app,
    async leave() {
      await Promise.allSettled([...sessions.values()].map((session) => session.leave()));
    },
  };
}

/** Lets errors reach the editor as sentences, with a code that tells what kind they are. */
function said<Params, Answer>(
  answer: (params: Params) => Promise<Answer>,
): (context: { readonly params: Params }) => Promise<Answer> {
  return async ({ params }) => {
    try {
      return await answer(params);
    } catch (error) {
      if (error instanceof RequestError || !(error instanceof Error)) throw error;
      const status = error instanceof RefusedError ? error.status : undefined;
      const isWrong = error instanceof RangeError || status === 400;
      const code = status === 404 ? NO_RESOURCE : isWrong ? INVALID_PARAMS : INTERNAL_ERROR;
      throw new RequestError(code, error.message);
    }
  };
}

/**
 * What to tell of an editor that works in another folder than the server: nothing if it is the same.
 *
 * @throws {RangeError} if the server of this machine works somewhere else altogether.
 */
function placeRemark(
  folder: string,
  { workspace, url }: { readonly workspace: string; readonly url: string },
): string | undefined {
  if (folder === workspace) return undefined;
  const isInside = [relative(workspace, folder), relative(folder, workspace)].some((path) =>
    !path.startsWith("..") && !isAbsolute(path)
  );
  if (isInside || !LOOPBACK.test(new URL(url).hostname)) {
    return `The agent works in ${workspace}, which is the workspace of the server at ${url}, and not in ${folder}.`;
  }
  throw new RangeError(
    `Cannot use a session in ${folder}: the server at ${url} works in ${workspace}. Start one in that folder, as with ` +
      `TARE_PORT=8788 tare start, and give its address to this command: tare acp --url http://127.0.0.1:8788`,
  );
}

const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/;

/** For editors without notices: a message that is one by itself. */
function asMessage(text: string, number: number): SessionUpdate {
  return {
    sessionUpdate: "agent_message_chunk",
    content: { type: "text", text: `*${text}*\n\n` },
    messageId: `n${number}`,
  };
}
