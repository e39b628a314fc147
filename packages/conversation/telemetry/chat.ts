import { SpanKind, type Tracer } from "@opentelemetry/api";
import type { Message, ModelSettings, Rewrite, ToolDefinition, Usage } from "@tare/messages";
import { inputMessages, outputMessages, toolDefinitions } from "./content.ts";
import { type Facts, type Operation, SpanOperation, whole } from "./operation.ts";
import type { Instruments } from "./telemetry.ts";

/** A call of a model. */
export interface ChatOptions {
  /** Whose model it is, as the conventions name providers. */
  readonly provider: string;
  /** Default: it isn't known. */
  readonly model?: string | undefined;
  /** Id of the session. Default: it belongs to none. */
  readonly conversation?: string | undefined;
  /** Where the model is asked. Default: it isn't known. */
  readonly address?: URL | undefined;
  /** Whether the reply is streamed. Default: it isn't. */
  readonly stream?: boolean;
  readonly settings?: ModelSettings | undefined;
  /** What the model sees. Default: it isn't known. */
  readonly prompt?:
    | { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] }
    | undefined;
  /** What it is part of. Default: what runs now. */
  readonly parent?: Operation | undefined;
}

/** What was planned for a call, and what came of it. */
export interface PlannedCall {
  /** What was rewritten for it. */
  readonly rewrites: readonly Pick<Rewrite, "mechanism" | "tokensBefore" | "tokensAfter">[];
  /** Tokens that each mechanism kept out of it. */
  readonly saved: Readonly<Record<string, number>>;
  /** What the ledger says of it, where one is kept. */
  readonly entry?: {
    readonly usage: Usage;
    readonly predictedCachedTokens: number;
    readonly tokenUnits: number;
    readonly resendTokenUnits: number;
    readonly decision?: { readonly cause: string };
  } | undefined;
}

/** A reply, as far as it is told of. */
export interface ToldReply {
  /** Gives what the model said; asked where content is told. */
  readonly messages: () => readonly Message[];
  /** Why it ended. Default: it isn't known. */
  readonly finishReason?: string | undefined;
  /** Default: it has none. */
  readonly id?: string | undefined;
}

/** A call of a model, from its request to the end of its reply. */
export interface Chat extends Operation {
  /** Something of the reply has come. */
  begun(): void;
  /** The reply is there. */
  replied(reply: ToldReply): void;
  /** What it took, as the provider reported. */
  took(usage: Usage): void;
  /** What was planned for it, and what came of that. */
  planned(call: PlannedCall): void;
}

/** A call of a model as the API has it. */
export class SpanChat extends SpanOperation implements Chat {
  readonly #labels: Facts;
  readonly #instruments: Instruments;
  readonly #captureContent: boolean;
  readonly #sentMs = performance.now();
  #hasBegun = false;

  /** Begins now. */
  constructor(options: ChatOptions, { tracer, instruments, captureContent }: {
    readonly tracer: Tracer;
    readonly instruments: Instruments;
    readonly captureContent: boolean;
  }) {
    const { provider, model, conversation, address, stream, settings = {}, prompt, parent } = options;
    const labels: Facts = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": provider,
      ...(model !== undefined && { "gen_ai.request.model": model }),
      ...(address && { "server.address": address.hostname, "server.port": whole(portOf(address)) }),
    };
    super({
      tracer,
      name: model === undefined ? "chat" : `chat ${model}`,
      kind: SpanKind.CLIENT,
      attributes: {
        ...labels,
        ...(conversation !== undefined && { "gen_ai.conversation.id": conversation }),
        ...(stream && { "gen_ai.request.stream": true }),
        ...settingsOf(settings),
      },
      duration: instruments.chatDuration,
      labels,
      parent,
    });
    this.#labels = labels;
    this.#instruments = instruments;
    this.#captureContent = captureContent && this.isRecording;
    if (prompt && this.#captureContent) {
      this.set({
        "gen_ai.input.messages": JSON.stringify(inputMessages(prompt.messages)),
        ...(prompt.tools.length > 0 && {
          "gen_ai.tool.definitions": JSON.stringify(toolDefinitions(prompt.tools)),
        }),
      });
    }
  }

  begun(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.set({ "gen_ai.response.time_to_first_chunk": (performance.now() - this.#sentMs) / 1000 });
  }

  replied({ messages, finishReason, id }: ToldReply): void {
    this.set({
      ...(finishReason && { "gen_ai.response.finish_reasons": [finishReason] }),
      ...(id !== undefined && { "gen_ai.response.id": id }),
      ...(this.#captureContent && {
        "gen_ai.output.messages": JSON.stringify(outputMessages(messages(), finishReason)),
      }),
    });
  }

  took({ promptTokens, outputTokens, cachedTokens, cacheWriteTokens, estimated }: Usage): void {
    // What was counted here is no usage.
    if (estimated) return;
    const { tokens } = this.#instruments;
    tokens.record(promptTokens, { ...this.#labels, "gen_ai.token.type": "input" });
    tokens.record(outputTokens, { ...this.#labels, "gen_ai.token.type": "output" });
    this.set({
      "gen_ai.usage.input_tokens": whole(promptTokens),
      "gen_ai.usage.output_tokens": whole(outputTokens),
      "gen_ai.usage.cache_read.input_tokens": whole(cachedTokens),
      ...(cacheWriteTokens !== undefined && {
        "gen_ai.usage.cache_creation.input_tokens": whole(cacheWriteTokens),
      }),
    });
  }

  planned({ rewrites, saved, entry }: PlannedCall): void {
    const { rewrites: rewritten, savedTokens, savedTokenUnits, predictedTokens, reportedTokens } =
      this.#instruments;
    for (const { mechanism, tokensBefore, tokensAfter } of rewrites) {
      const told = { "tare.rewrite.mechanism": mechanism, "tare.rewrite.cause": causeOf(mechanism, entry) };
      rewritten.add(1, told);
      this.note("tare.rewrite", {
        ...told,
        "tare.rewrite.tokens_before": whole(tokensBefore),
        "tare.rewrite.tokens_after": whole(tokensAfter),
      });
    }
    let sum = 0;
    for (const [mechanism, tokens] of Object.entries(saved)) {
      sum += tokens;
      // What looking tools up takes is a loss, and no counter goes back.
      if (tokens > 0) savedTokens.add(tokens, { ...this.#labels, "tare.mechanism": mechanism });
    }
    this.set({ "tare.saved.tokens": whole(sum) });
    if (!entry) return;
    const { usage, predictedCachedTokens, tokenUnits, resendTokenUnits } = entry;
    savedTokenUnits.add(resendTokenUnits - tokenUnits, this.#labels);
    this.set({
      "tare.saved.token_units": resendTokenUnits - tokenUnits,
      "tare.cache.predicted_tokens": whole(predictedCachedTokens),
    });
    if (usage.estimated) return;
    predictedTokens.add(predictedCachedTokens, this.#labels);
    reportedTokens.add(usage.cachedTokens, this.#labels);
  }
}

/** Why a rewrite was made, in a word. */
function causeOf(mechanism: string, entry: PlannedCall["entry"]): string {
  if (mechanism === "planner") return entry?.decision?.cause === "price" ? "price" : "window";
  if (mechanism === "truncate") return "arrival";
  return mechanism === "pins" ? "asked" : "trigger";
}

function settingsOf(settings: ModelSettings): Facts {
  const { temperature, top_p, frequency_penalty, presence_penalty, seed } = settings;
  return {
    ...(temperature !== undefined && { "gen_ai.request.temperature": temperature }),
    ...(top_p !== undefined && { "gen_ai.request.top_p": top_p }),
    ...(frequency_penalty !== undefined && { "gen_ai.request.frequency_penalty": frequency_penalty }),
    ...(presence_penalty !== undefined && { "gen_ai.request.presence_penalty": presence_penalty }),
    ...(seed !== undefined && { "gen_ai.request.seed": whole(seed) }),
  };
}

function portOf({ port, protocol }: URL): number {
  return port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
}
