import {
  agent,
  type AgentApp,
  type AgentConnection,
  type ListSessionsResponse,
  methods,
  type NewSessionRequest,
  type PermissionOption,
  PROTOCOL_VERSION,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { isAbsolute, relative } from "@std/path";
import type { TurnEnd } from "@tare/loop";
import type { Content } from "@tare/messages";
import type { NumberedEvent } from "@tare/server/internal";
import {
  type AgentClient,
  type AgentInfo,
  type Approval,
  type ApprovalAnswer,
  AWAY,
  Reconnection,
  RefusedError,
} from "../agent_client.ts";
import { promptContent } from "./prompt_content.ts";
import { joinDeltas, SessionUpdates } from "./session_updates.ts";
import { printableText } from "../terminal/printable_text.ts";
import { describeToolCall, toolText } from "./tool_calls.ts";

interface EditorAgentOptions {
  readonly client: AgentClient;
  readonly url: string;
  readonly realPath: (folder: string) => Promise<string>;
  /** Longest pause between two attempts to reach the server, in milliseconds. */
  readonly maxPauseMs?: number | undefined;
}

interface EditorAgent {
  readonly app: AgentApp;
  /** Cancels the editor's turns; pending approvals stay open for other clients. Never rejects. */
  readonly leave: () => Promise<void>;
}

const [INVALID_PARAMS, NO_RESOURCE, INTERNAL_ERROR] = [-32602, -32002, -32603];

export function editorAgent({ client, url, realPath, maxPauseMs }: EditorAgentOptions): EditorAgent {
  const sessions = new Map<string, EditorSession>();
  let hasNotices = false;
  let sentCount = 0;
  let editor: AgentConnection | undefined;
  const show = async (sessionId: string, update: SessionUpdate) => {
    await editor?.client.notify(methods.client.session.update, {
      sessionId,
      update: update.sessionUpdate === "notice" && !hasNotices
        ? asMessage(update.title, sentCount++)
        : update,
    });
  };

  const ask: Editor["ask"] = async (request, cancellationSignal) => {
    if (!editor) throw new Error("The editor has disconnected.");
    const options = { cancellationSignal, stopWaitingOnCancel: true };
    return await editor.client.request(methods.client.session.requestPermission, request, options);
  };

  /** @throws {RangeError} if a local server has another workspace. */
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
        `The editor's MCP servers (${names}) are not used: the server at ${url} determines the tools.`,
      );
    }
    const id = await find();
    const session = new EditorSession(id, { client, editor: { show, ask }, agent, maxPauseMs });
    session.remarks.push(...remarks);
    sessions.set(id, session);
    return [id, session];
  };
  const sessionOf = async (id: string) => sessions.get(id) ?? (await open({}, () => Promise.resolve(id)))[1];

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
      withRequestErrors(async (params: NewSessionRequest) => {
        const [sessionId] = await open(params, () => client.createSession());
        return { sessionId };
      }),
    )
    .onRequest(
      methods.agent.session.load,
      withRequestErrors(async (params) => {
        const [, session] = await open(params, () => Promise.resolve(params.sessionId));
        await session.replay();
        return {};
      }),
    )
    .onRequest(
      methods.agent.session.resume,
      withRequestErrors(async (params) => {
        const [, session] = await open(params, () => Promise.resolve(params.sessionId));
        await session.resume();
        return {};
      }),
    )
    .onRequest(
      methods.agent.session.list,
      withRequestErrors(async ({ cwd, cursor }): Promise<ListSessionsResponse> => {
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
      withRequestErrors(async ({ sessionId }) => {
        await sessions.get(sessionId)?.cancel();
        sessions.delete(sessionId);
      }),
    )
    .onRequest(
      methods.agent.session.delete,
      withRequestErrors(async ({ sessionId }) => {
        await client.deleteSession(sessionId);
        sessions.delete(sessionId);
      }),
    )
    .onRequest(methods.agent.session.prompt, async ({ params: { sessionId, prompt }, signal }) => {
      const play = withRequestErrors(async () => {
        const session = await sessionOf(sessionId);
        const content = promptContent(prompt, (await client.agent()).workspace);
        if (content.length === 0) throw new RangeError("Cannot send the prompt: it is empty.");
        const cancel = () => void (editor?.signal.aborted || session.cancel().catch(() => {}));
        signal.addEventListener("abort", cancel, { once: true });
        return { stopReason: await session.prompt(content) };
      });
      return await play({ params: undefined });
    })
    .onNotification(methods.agent.session.cancel, async ({ params: { sessionId } }) => {
      await sessions.get(sessionId)?.cancel().catch(() => {});
    });
  return {
    app,
    async leave() {
      await Promise.allSettled([...sessions.values()].map((session) => session.leave()));
    },
  };
}

function withRequestErrors<Params, Answer>(
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
 * Returns a remark if the folder isn't the workspace.
 *
 * @throws {RangeError} if a local server's workspace is unrelated.
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
    return `The agent works in ${workspace}, the workspace of the server at ${url}, not in ${folder}.`;
  }
  throw new RangeError(
    `Cannot use a session in ${folder}: the workspace of the server at ${url} is ${workspace}. Start a server in that ` +
      `folder with tare start, and run this command there, or name the new server: tare acp --url URL`,
  );
}

const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/;

function asMessage(text: string, number: number): SessionUpdate {
  return {
    sessionUpdate: "agent_message_chunk",
    content: { type: "text", text: `*${text}*\n\n` },
    messageId: `n${number}`,
  };
}

interface Editor {
  readonly show: (session: string, update: SessionUpdate) => Promise<void>;
  readonly ask: QuestionsOptions["ask"];
}

interface Followed {
  readonly started: Promise<unknown>;
  /** Whether the editor started it, so that its first message is visible already. */
  readonly isOwn: boolean;
  isCancelled: boolean;
  readonly over: AbortController;
}

type Ending = Pick<TurnEnd, "reason" | "message">;

interface Reading {
  readonly turn: Followed;
  /** Number of its first event: earlier ends belong to earlier turns. Default: 0. */
  readonly from?: number;
}

const REPLAYED = 256;

class EditorSession {
  readonly remarks: string[] = [];
  readonly #id: string;
  readonly #client: AgentClient;
  readonly #editor: Editor;
  readonly #maxPauseMs: number | undefined;
  readonly #updates: SessionUpdates;
  readonly #questions: Questions;
  #last = 0;
  #turn: Followed | undefined;
  #isAsking = false;

  constructor(
    id: string,
    { client, editor, agent, maxPauseMs }: {
      readonly client: AgentClient;
      readonly editor: Editor;
      readonly agent: AgentInfo;
      readonly maxPauseMs: number | undefined;
    },
  ) {
    this.#id = id;
    this.#client = client;
    this.#editor = editor;
    this.#maxPauseMs = maxPauseMs;
    this.#updates = new SessionUpdates(agent);
    this.#questions = new Questions({
      id,
      client,
      workspace: agent.workspace,
      ask: editor.ask,
      cancel: () => this.cancel(),
      warn: (title) => this.#show({ sessionUpdate: "notice", severity: "warning", title }),
    });
  }

  /** Continues after the last event. @throws {RefusedError} 404 for an unknown session. */
  async resume(): Promise<void> {
    const { lastEvent, ledger, approvals } = await this.#client.session(this.#id);
    this.#last = lastEvent;
    this.#updates.begin(ledger.usd);
    for (const approval of approvals) {
      this.#questions.approval(approval);
      const event = { ...approval, type: "approval_requested", step: 1, id: approval.callId } as const;
      for (const update of this.#updates.of({ number: lastEvent, event })) await this.#show(update);
    }
    this.#isAsking = this.#questions.areOpen;
    if (this.#isAsking) this.#watch(await this.#client.follow(this.#id, lastEvent));
  }

  /** Sends all events. A turn that runs or waits for approval is followed after this has settled. */
  async replay(): Promise<void> {
    const { lastEvent, status } = await this.#client.session(this.#id);
    if (lastEvent === 0) return;
    const events = (await this.#client.follow(this.#id, 0))[Symbol.asyncIterator]();
    for (let last = 0; last < lastEvent;) {
      const batch: NumberedEvent[] = [];
      while (last < lastEvent && batch.length < REPLAYED) {
        const next = await events.next();
        if (next.done) throw new Error("The server closed the stream before the session's end.");
        batch.push(next.value);
        last = next.value.number;
      }
      for (const update of joinDeltas(batch).flatMap((numbered) => this.#take(numbered))) {
        if (update.sessionUpdate !== "notice") await this.#show(update);
      }
    }
    if (status === "running" || this.#questions.areOpen) {
      this.#watch({ [Symbol.asyncIterator]: () => events });
    } else await events.return?.();
  }

  /** Runs a turn and sends its updates. @throws {Error} if the turn fails or is refused. */
  async prompt(input: Content): Promise<StopReason> {
    const started = this.#client.startTurn(this.#id, input);
    const turn: Followed = { started, isOwn: true, isCancelled: false, over: new AbortController() };
    if (!this.#turn) this.#turn = turn;
    try {
      let events = await started;
      let from: number | undefined;
      const before = this.#turn;
      if (before && before !== turn) {
        // It waited for approval; results of its calls precede the new turn's events.
        before.over.abort();
        from = await firstNumber(events);
        events = await this.#client.follow(this.#id, this.#last);
      }
      this.#turn = turn;
      for (const title of this.remarks.splice(0)) {
        await this.#show({ sessionUpdate: "notice", severity: "info", title });
      }
      const end = await this.#follow(events, { turn, ...(from !== undefined && { from }) });
      return turn.isCancelled ? "cancelled" : await this.#stopReason(end);
    } catch (error) {
      if (turn.isCancelled) return "cancelled";
      throw error;
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
    }
  }

  async cancel(): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    turn.isCancelled = true;
    // Before the server has accepted the turn, it has nothing to cancel.
    const runs = await turn.started.then(() => true, () => false);
    if (runs && this.#turn === turn) await this.#client.cancel(this.#id);
  }

  async leave(): Promise<void> {
    if (this.#turn?.isOwn && !this.#questions.areOpen) await this.cancel();
  }

  #watch(events: AsyncIterable<NumberedEvent>): void {
    const over = new AbortController();
    const turn: Followed = { started: Promise.resolve(), isOwn: false, isCancelled: false, over };
    this.#turn = turn;
    this.#putQuestions();
    this.#follow(events, { turn }).catch(async (error) => {
      await this.#show({ sessionUpdate: "notice", severity: "error", title: (error as Error).message });
    }).finally(() => {
      if (this.#turn === turn) this.#turn = undefined;
    }).catch(() => {
    });
  }

  /** Follows a turn to its end. Calls without a result are marked as failed if it can't. */
  async #follow(events: AsyncIterable<NumberedEvent>, reading: Reading): Promise<Ending> {
    const { turn } = reading;
    const { signal } = turn.over;
    const connection = new Reconnection({
      onAway: () => this.#show({ sessionUpdate: "notice", severity: "warning", title: AWAY }),
      maxPauseMs: this.#maxPauseMs,
      signal,
    });
    const follow = async (after: number) => {
      // The connection may have failed before the server received it.
      if (turn.isCancelled) await this.#client.cancel(this.#id);
      return await this.#client.follow(this.#id, after);
    };
    try {
      let inVain = 0;
      for (let first = { first: events } as { readonly first?: typeof events };; first = {}) {
        const before = this.#last;
        const end = await this.#read(connection.events(follow, { after: before, ...first }), reading);
        if (end) return end;
        if (signal.aborted || this.#isAsking && !this.#questions.areOpen) return { reason: "cancelled" };
        inVain = this.#last === before ? inVain + 1 : 0;
        if (inVain > 1) throw new Error("The server closed the stream before the turn's end.");
      }
    } catch (error) {
      if (signal.aborted) throw error;
      this.#questions.leave();
      for (const update of this.#updates.abandon()) await this.#show(update);
      throw error;
    }
  }

  async #read(
    events: AsyncIterable<NumberedEvent>,
    { turn, from = 0 }: Reading,
  ): Promise<Ending | undefined> {
    for await (const numbered of events) {
      if (turn.over.signal.aborted) break;
      for (const update of this.#take(numbered, turn)) await this.#show(update);
      const { number, event } = numbered;
      if (event.type !== "turn_end" || number < from) continue;
      if (event.reason !== "approval") return event;
      this.#putQuestions();
    }
    return undefined;
  }

  #take(numbered: NumberedEvent, { isOwn } = { isOwn: false }): readonly SessionUpdate[] {
    const { number, event } = numbered;
    this.#last = number;
    if (event.type === "turn_start") this.#isAsking = false;
    if (event.type === "turn_end") this.#isAsking = event.reason === "approval";
    if (event.type === "approval_requested") {
      const { approvalId: id = "", id: callId, name, arguments: text, requestedAtMs = 0, expiresAtMs = 0 } =
        event;
      this.#questions.approval({ id, callId, name, arguments: text, requestedAtMs, expiresAtMs });
    }
    if (event.type === "approval_answered") this.#questions.answered(event.approvalId);
    return [...this.#updates.of(numbered, { isOwn })];
  }

  #putQuestions(): void {
    this.#questions.put((id) => this.#updates.idOf(id));
  }

  async #stopReason({ reason, message }: Ending): Promise<StopReason> {
    switch (reason) {
      case "completed":
      case "tool_calls":
        return "end_turn";
      case "approval":
      case "cancelled":
        return "cancelled";
      case "step_limit":
      case "budget":
      case "output_limit":
        if (message) await this.#show({ sessionUpdate: "notice", severity: "warning", title: message });
        return reason === "output_limit" ? "max_tokens" : "max_turn_requests";
      case "stalled":
      case "interrupted":
      case "model_error":
      case "internal_error":
        throw new RequestError(INTERNAL_ERROR, message ?? `The turn ended: ${reason}.`);
      default:
        return reason satisfies never;
    }
  }

  #show(update: SessionUpdate): Promise<void> {
    return this.#editor.show(this.#id, update);
  }
}

async function firstNumber(events: AsyncIterable<NumberedEvent>): Promise<number> {
  for await (const { number } of events) return number;
  throw new Error("The server closed the stream before the turn's end.");
}

interface QuestionsOptions {
  readonly id: string;
  readonly client: Pick<AgentClient, "answer">;
  /** Requests permission from the user. Rejects if the editor fails, or once `signal` is aborted. */
  readonly ask: (
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ) => Promise<RequestPermissionResponse>;
  readonly cancel: () => Promise<void>;
  readonly warn: (message: string) => Promise<void>;
  readonly workspace: string | undefined;
}

const OPTIONS: readonly (PermissionOption & { readonly optionId: ApprovalAnswer["decision"] })[] = [
  { optionId: "allow", kind: "allow_once", name: "Allow" },
  { optionId: "always", kind: "allow_always", name: "Always allow in this session" },
  { optionId: "deny", kind: "reject_once", name: "Deny" },
];

class Questions {
  readonly #options: QuestionsOptions;
  readonly #open = new Map<string, { readonly approval: Approval; readonly answered: AbortController }>();

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  get areOpen(): boolean {
    return this.#open.size > 0;
  }

  /** Adds an approval, which is requested once the turn has ended: before that, it couldn't continue. */
  approval(approval: Approval): void {
    this.#open.set(approval.id, { approval, answered: new AbortController() });
  }

  answered(id: string): void {
    this.#open.get(id)?.answered.abort();
    this.#open.delete(id);
  }

  leave(): void {
    for (const id of [...this.#open.keys()]) this.answered(id);
  }

  put(toolCallId: (id: string) => string): void {
    for (const { approval, answered } of this.#open.values()) {
      this.#put(approval, { toolCallId: toolCallId(approval.callId), signal: answered.signal }).catch(
        () => {},
      );
    }
  }

  async #put(
    approval: Approval,
    { toolCallId, signal }: { readonly toolCallId: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const { id, client, ask, cancel, warn, workspace } = this.#options;
    const described = describeToolCall({ name: approval.name, text: approval.arguments, workspace });
    const request = {
      sessionId: id,
      toolCall: {
        ...{ toolCallId, name: printableText(approval.name), status: "pending" as const, ...described },
        ...(approval.why !== undefined && { content: [...described.content, ...toolText(approval.why)] }),
      },
      options: [...OPTIONS],
    };
    while (!signal.aborted) {
      const { outcome } = await ask(request, signal).catch(
        async (error): Promise<RequestPermissionResponse> => {
          if (!signal.aborted) {
            await warn(`Denied, because the editor can't ask for permission: ${error.message}`);
          }
          return { outcome: { outcome: "selected", optionId: "deny" } };
        },
      );
      if (signal.aborted) return;
      if (outcome.outcome === "cancelled") return await cancel();
      const decision = OPTIONS.find(({ optionId }) => optionId === outcome.optionId)?.optionId ?? "deny";
      try {
        return await client.answer(id, approval, { decision });
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
        if (error.status === 404 || error.status === 409) return;
        await warn(error.message);
      }
    }
  }
}
