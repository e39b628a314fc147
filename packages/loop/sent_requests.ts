import {
  type ContextView,
  countRequestTokens,
  type CountTokens,
  type ModelEvent,
  type ModelRequest,
  type Usage,
} from "@tare/messages";

/** A request that was sent and has no complete reply yet. */
interface OpenRequest {
  /** Whether an answer that isn't a refusal has begun. */
  begun: boolean;
  /** What was streamed of the reply. */
  readonly pieces: string[];
}

/** Requests of one model call. Each whose answer began is paid, so incomplete ones are counted here. */
export class SentRequests {
  readonly #view: Pick<ContextView, "messages" | "tools" | "cachedTokens">;
  readonly #countTokens: CountTokens;
  #open: OpenRequest | undefined;
  #unfinished: Usage[] = [];

  constructor(view: Pick<ContextView, "messages" | "tools" | "cachedTokens">, countTokens: CountTokens) {
    this.#view = view;
    this.#countTokens = countTokens;
  }

  /** Returns the request with callbacks that report what the model sends. */
  watched(request: ModelRequest): ModelRequest {
    const { confirm, refused, restarted } = request;
    return {
      ...request,
      confirm: () => {
        confirm?.();
        this.#next();
      },
      refused: (why) => {
        if (why === undefined) this.#now().begun = true;
        else this.#open = undefined;
        refused?.(why);
      },
      ...(restarted && {
        restarted: (why: string) => {
          this.#next();
          restarted(why);
        },
      }),
    };
  }

  /** Takes note of an event of the reply. */
  received(event: ModelEvent): void {
    if (event.type === "completed") {
      this.#open = undefined;
      return;
    }
    const open = this.#now();
    open.begun = true;
    if (event.type === "tool_call_delta") open.pieces.push(event.name ?? "", event.arguments ?? "");
    else open.pieces.push(event.text);
  }

  /** Takes note that nothing more comes. One that was stopped before its answer began has been sent all the same. */
  end({ isStopped }: { readonly isStopped: boolean }): void {
    if (this.#open && isStopped) this.#open.begun = true;
    this.#close();
  }

  /** Returns what requests without a complete reply took that were not returned before, estimated. */
  take(): readonly Usage[] {
    if (this.#unfinished.length === 0) return this.#unfinished;
    return this.#unfinished.splice(0);
  }

  #now(): OpenRequest {
    return this.#open ??= { begun: false, pieces: [] };
  }

  #next(): void {
    this.#close();
    this.#now();
  }

  #close(): void {
    const { begun = false, pieces = [] } = this.#open ?? {};
    this.#open = undefined;
    if (!begun) return;
    const promptTokens = countRequestTokens(this.#view, this.#countTokens);
    this.#unfinished.push({
      promptTokens,
      cachedTokens: Math.min(promptTokens, this.#view.cachedTokens ?? 0),
      outputTokens: this.#countTokens(pieces.join("")),
      estimated: true,
    });
  }
}
