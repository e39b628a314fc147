import type { Message } from "@tare/messages";
import { providerOf } from "@tare/planner";
import { type Chat, errorTypeOf, inThisTrace, type Telemetry } from "@tare/conversation/telemetry";
import type { Protocol, WireReply } from "@tare/wire";
import type { Upstream } from "./options.ts";
import type { GatewayTurn, SentCall } from "./turn.ts";

/** What the calls of one request are. */
export interface TracedCallsOptions {
  readonly telemetry: Telemetry;
  readonly upstream: Upstream;
  /** Aborted when the client has left. */
  readonly signal: AbortSignal;
}

/** The upstream's calls of one request, as telemetry tells of them: one after the other. */
export class TracedCalls {
  readonly #options: TracedCallsOptions;
  /** Whoever reads the answer to a request lets the next call of it be made. */
  readonly #within = inThisTrace();
  #chat: Chat | undefined;

  /** No call has been made. */
  constructor(options: TracedCallsOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.end(), { once: true });
  }

  /** Sends a request of a turn, or of none. @throws what `send` throws. */
  async sent(turn: GatewayTurn | undefined, send: () => Promise<Response>): Promise<Response> {
    const { telemetry, upstream } = this.#options;
    this.end();
    const model = turn?.request.model;
    const { profile } = upstream;
    const rules = typeof profile === "function" ? profile(model ?? "") : profile;
    const about = {
      provider: providerOf(rules),
      model,
      conversation: turn?.session.id,
      address: new URL(upstream.baseURL),
      prompt: turn?.view,
    };
    const chat = this.#chat = this.#within(() => telemetry.chat(about));
    try {
      const response = await chat.within(send);
      const type = response.headers.get("content-type") ?? "";
      if (type.includes("text/event-stream")) chat.set({ "gen_ai.request.stream": true });
      if (!response.ok) chat.end(String(response.status));
      return response;
    } catch (error) {
      this.end(errorTypeOf(error));
      throw error;
    }
  }

  /** A reply is there, and this is known of it. */
  replied({ view, request: { protocol } }: GatewayTurn, reply: WireReply, sent: SentCall | undefined): void {
    const chat = this.#chat;
    if (!chat) return;
    const { usage, id, finish: finishReason, items } = reply;
    const messages = () => items.flatMap((json) => messagesOf(protocol, json));
    chat.replied({ messages, finishReason, id });
    if (usage) chat.took(usage);
    if (view) chat.planned({ ...view, entry: sent?.entry });
    chat.end();
  }

  /** The newest call is over: by this class of error, if by one. */
  end(errorType?: string): void {
    this.#chat?.end(this.#options.signal.aborted ? "cancelled" : errorType);
  }

  /** What the client gets to see of replies: with it the last call is over. */
  async *read<T, Last>(replies: AsyncGenerator<T, Last>): AsyncGenerator<T, Last> {
    let failure: string | undefined;
    try {
      return yield* replies;
    } catch (error) {
      failure = errorTypeOf(error);
      throw error;
    } finally {
      this.end(failure);
    }
  }

  /** An answer that is passed on as it is: with it the call is over. */
  over(response: Response): Response {
    if (!this.#chat) return response;
    if (!response.body) {
      this.end();
      return response;
    }
    const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
    response.body.pipeTo(writable).then(() => this.end(), (error) => this.end(errorTypeOf(error)));
    return new Response(readable, response);
  }
}

/** The messages of an item of a reply; none of one that nobody here knows. */
function messagesOf(protocol: Protocol, json: string): readonly Message[] {
  try {
    return protocol.readItem(JSON.parse(json)).map(({ message }) => message);
  } catch {
    // What is told of a call must not keep it from going on.
    return [];
  }
}
