import type {
  PermissionOption,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from "@agentclientprotocol/sdk";
import { type AgentClient, type Approval, type ApprovalAnswer, RefusedError } from "../agent_client.ts";
import { describeToolCall } from "./tool_calls.ts";

/** What {@linkcode Questions} work with. */
export interface QuestionsOptions {
  /** The session's. */
  readonly id: string;
  readonly client: Pick<AgentClient, "answer">;
  /** Puts a question to the person; rejects if the editor can't, or once `signal` says that it needs no answer any more. */
  readonly ask: (
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ) => Promise<RequestPermissionResponse>;
  /** Cancels the turn. */
  readonly cancel: () => Promise<void>;
  /** Tells the person what went wrong. */
  readonly warn: (message: string) => Promise<void>;
  readonly workspace: string | undefined;
}

const OPTIONS: readonly (PermissionOption & { readonly optionId: ApprovalAnswer["decision"] })[] = [
  { optionId: "allow", kind: "allow_once", name: "Allow" },
  { optionId: "always", kind: "allow_always", name: "Always allow in this session" },
  { optionId: "deny", kind: "reject_once", name: "Deny" },
];

/** What a session asks before calls run, put to the person in the editor and answered to the server. */
export class Questions {
  readonly #options: QuestionsOptions;
  readonly #open = new Map<string, { readonly asked: Approval; readonly answered: AbortController }>();

  /** Nothing is asked yet. */
  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Whether anything waits for an answer. */
  get areOpen(): boolean {
    return this.#open.size > 0;
  }

  /** The server asks this. The person is asked once the turn has ended: before, nothing would go on. */
  asked(asked: Approval): void {
    this.#open.set(asked.callId, { asked, answered: new AbortController() });
  }

  /** Somebody has answered, or the time is over: the person need not any more. */
  answered(id: string): void {
    this.#open.get(id)?.answered.abort();
    this.#open.delete(id);
  }

  /** Nobody is followed any more: nobody is asked either. */
  leave(): void {
    for (const id of [...this.#open.keys()]) this.answered(id);
  }

  /** Puts what is open to the person. `toolCallId` is the editor's name for a call. */
  put(toolCallId: (id: string) => string): void {
    for (const { asked, answered } of this.#open.values()) {
      // Where the server can't be told, whoever follows the turn hears that it is gone.
      this.#put(asked, { toolCallId: toolCallId(asked.callId), signal: answered.signal }).catch(() => {});
    }
  }

  async #put(
    asked: Approval,
    { toolCallId, signal }: { readonly toolCallId: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const { id, client, ask, cancel, warn, workspace } = this.#options;
    const shown = describeToolCall({ name: asked.name, text: asked.arguments, workspace });
    const request = {
      sessionId: id,
      toolCall: { toolCallId, name: asked.name, status: "pending" as const, ...shown },
      options: [...OPTIONS],
    };
    while (!signal.aborted) {
      const { outcome } = await ask(request, signal).catch(
        async (error): Promise<RequestPermissionResponse> => {
          if (!signal.aborted) await warn(`Cannot ask in the editor, so it is denied: ${error.message}`);
          return { outcome: { outcome: "selected", optionId: "deny" } };
        },
      );
      if (signal.aborted) return;
      if (outcome.outcome === "cancelled") return await cancel();
      // What the person doesn't say clearly is no.
      const decision = OPTIONS.find(({ optionId }) => optionId === outcome.optionId)?.optionId ?? "deny";
      try {
        return await client.answer(id, asked, { decision });
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
        // Somebody else has answered.
        if (error.status === 404 || error.status === 409) return;
        await warn(error.message);
      }
    }
  }
}
