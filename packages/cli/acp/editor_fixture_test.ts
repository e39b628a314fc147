/**
 * An editor connected to an agent with a fake server. Contains no tests.
 *
 * @module
 */
import {
  client,
  type ClientContext,
  type ClientRequestHandler,
  methods,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import type { TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { NumberedEvent } from "@tare/server/internal";
import type { AgentClient } from "../agent_client.ts";
import { editorAgent } from "./editor_agent.ts";

export type Event = NumberedEvent["event"];

export const URL = "http://127.0.0.1:8787";
export const TEXT = (text: string): Event => ({ type: "text_delta", step: 1, text });
export const STEP: Event = { type: "step_start", step: 1 };
export const end = (reason: TurnEnd["reason"], message?: string): Event => ({
  type: "turn_end",
  reason,
  text: "",
  ledger: EMPTY_LEDGER,
  ...(message !== undefined && { message }),
});

/** Yields events with numbers after `last`. */
export async function* numbered(events: readonly Event[], before = 0): AsyncGenerator<NumberedEvent, void> {
  for (const [index, event] of events.entries()) {
    await Promise.resolve();
    yield { number: before + index + 1, event };
  }
}

/** Runs a test with an editor and a server that implements these methods. */
export async function edit(
  parts: Partial<AgentClient>,
  use: (
    agent: ClientContext,
    updates: SessionUpdate[],
    more: {
      readonly leave: () => Promise<void>;
      /** Resolves once this many updates have arrived. */
      readonly come: (count: number) => Promise<void>;
    },
  ) => Promise<void>,
  { notices = true, url = URL, permit, maxPauseMs }: {
    readonly maxPauseMs?: number;
    readonly notices?: boolean;
    readonly url?: string;
    readonly permit?: ClientRequestHandler<RequestPermissionRequest, RequestPermissionResponse>;
  } = {},
): Promise<void> {
  const server: Partial<AgentClient> = {
    agent: () => Promise.resolve({ workspace: "/w", windowTokens: 100 }),
    createSession: () => Promise.resolve("s"),
    cancel: () => Promise.resolve(),
    ...parts,
  };
  const { app, leave } = editorAgent({
    client: server as AgentClient,
    url,
    maxPauseMs,
    realPath: (folder) => Promise.resolve(folder.replace("/link", "/w")),
  });
  const updates: SessionUpdate[] = [];
  let changed = Promise.withResolvers<void>();
  const come = async (count: number) => {
    while (updates.length < count) await changed.promise;
  };
  const editor = client().onNotification(
    methods.client.session.update,
    ({ params: { update } }) => {
      updates.push(update);
      changed.resolve();
      changed = Promise.withResolvers();
    },
  );
  if (permit) editor.onRequest(methods.client.session.requestPermission, permit);
  const connection = editor.connect(app);
  await connection.agent.request("initialize", {
    protocolVersion: 1,
    clientCapabilities: { session: notices ? { notices: {} } : {} },
  });
  await use(connection.agent, updates, { leave, come });
  connection.close();
}

/** Starts a session. Default folder: the workspace. */
export const newSession = (agent: ClientContext, cwd = "/w") =>
  agent.request("session/new", { cwd, mcpServers: [] });
export const say = (agent: ClientContext, text = "Hi.") =>
  agent.request("session/prompt", { sessionId: "s", prompt: [{ type: "text", text }] });

/** Summarizes updates. */
export function textsOf(updates: readonly SessionUpdate[]): string[] {
  return updates.map((update) => {
    if (update.sessionUpdate === "notice") return `${update.severity}: ${update.title}`;
    if ("content" in update && update.content && "text" in update.content) return update.content.text;
    return `${update.sessionUpdate}`;
  });
}
