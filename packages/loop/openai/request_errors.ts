import { asRecord } from "@tare/wire";
import { ModelError, type ModelErrorCode } from "../model_error.ts";

/** What the sentence about a failed request names. */
export interface FailedRequest {
  /** Host and port of the provider. */
  readonly host: string;
  /** Name of the model. */
  readonly model: string;
  /** Removed from whatever the provider says. */
  readonly apiKey?: string | undefined;
  /** Longest time that an answer may take to begin, in milliseconds. */
  readonly timeoutMs: number;
}

/** How long a provider's own words may be in a message, in UTF-16 code units. */
const MAX_QUOTE = 500;

/** What providers say when a prompt doesn't fit: collected from OpenAI, Anthropic, Gemini, xAI, DeepSeek, vLLM, llama.cpp, … */
const TOO_LONG =
  /context[ _-]?(length|size|window)|maximum (context|prompt) length|prompt[^.]{0,40} too (long|large)|too many (input )?tokens|input token count|token (limit|count)[^.]{0,60}exceed|exceed[^.]{0,60}(token limit|context|number of tokens)|max_prompt_tokens/i;

const NO_SUCH_MODEL =
  /model_not_found|model.{0,100}(not found|not exist)|not a valid model|(no such|unknown|invalid) model/i;

/** What a provider sent in place of a reply, or in the middle of one. */
export interface ProviderRefusal {
  /** Absent in the middle of a reply. */
  readonly status?: number;
  readonly headers: Headers;
  /** The answer's body, or what an event holds as its error. */
  readonly said: unknown;
}

/** Tells what went wrong while a reply was read. What isn't the provider's or the connection's fault comes back as it is. */
export function readError(error: unknown, host: string): unknown {
  if (error instanceof SyntaxError) {
    return replyError("bad_response", host, "its stream holds an event that is no JSON", { cause: error });
  }
  // Reading a body fails with a TypeError when the connection breaks.
  if (error instanceof TypeError) {
    return replyError("bad_response", host, "its stream broke off before the reply was whole", {
      cause: error,
    });
  }
  return error;
}

/** The error of a request to this host that brought no whole reply. */
export function replyError(
  code: ModelErrorCode,
  host: string,
  state: string,
  options: { readonly retryAfterMs?: number; readonly cause?: unknown } = {},
): ModelError {
  return new ModelError(code, `Cannot get a reply from ${host}: ${state}.`, options);
}

/** Tells what a provider refused, in one sentence that never holds the API key. */
export function refusalError(refusal: ProviderRefusal, request: FailedRequest): ModelError {
  const { code, state } = judge(refusal, request);
  // The provider's answer may quote the key, so it is no cause here.
  const { waitMs } = waitOf(refusal.headers);
  const wait = code === "rate_limited" && waitMs !== undefined ? { retryAfterMs: waitMs } : {};
  return replyError(code, request.host, state, wait);
}

function judge(
  { status: answered, headers, said }: ProviderRefusal,
  { model, apiKey }: FailedRequest,
): { readonly code: ModelErrorCode; readonly state: string } {
  const error = errorIn(said);
  // An error in the middle of a stream has no status, but sometimes a number as its code.
  const inner = asRecord(error)?.code;
  const status = answered ?? (typeof inner === "number" ? inner : undefined);
  const details = JSON.stringify(error);
  const quote = [status, quoteOf(error, apiKey)].filter(Boolean).join(": ");
  const told = quote ? ` (${quote})` : "";
  if (status === 401) {
    // Providers quote parts of the key here.
    return {
      code: "bad_key",
      state: apiKey ? "the API key was refused (401)" : "it asks for an API key (401)",
    };
  }
  if (status === 403) return { code: "bad_key", state: `the API key doesn't allow this${told}` };
  if (status === 429) {
    const { waitMs } = waitOf(headers);
    const wait = waitMs === undefined ? "" : ` and asks to wait ${waitMs / 1000} s`;
    return { code: "rate_limited", state: `it limits the rate of requests${wait}${told}` };
  }
  if (status === 413 || TOO_LONG.test(details)) {
    return { code: "prompt_too_long", state: `the prompt is too long for ${model}${told}` };
  }
  if (status === 404 || NO_SUCH_MODEL.test(details)) {
    return { code: "no_such_model", state: `there is no model "${model}", or the base URL is wrong${told}` };
  }
  return status !== undefined && status >= 400 && status < 500 && status !== 402 && status !== 408
    ? { code: "bad_request", state: `it refused the request${told}` }
    : { code: "provider_error", state: `it failed${told}` };
}

/** What an answer holds as its error: mostly an object, sometimes a text or a whole page. */
function errorIn(said: unknown): unknown {
  if (typeof said !== "string") return said;
  try {
    const body = JSON.parse(said);
    return asRecord(body)?.error ?? body;
  } catch {
    return said;
  }
}

/** The provider's own words, on one line and without the key. */
function quoteOf(error: unknown, apiKey: string | undefined): string {
  const body = asRecord(error);
  // OpenRouter hands on what the provider behind it said.
  const inner = asRecord(body?.metadata)?.raw;
  const said = body
    ? [body.message ?? body.detail ?? JSON.stringify(body), inner].filter((part) => typeof part === "string")
      .join(" ")
    : String(error ?? "");
  // Before the line is cut, or a part of the key could be left.
  const line = (apiKey ? said.replaceAll(apiKey, "***") : said).replaceAll(/\s+/g, " ").trim();
  // An error page of a proxy says nothing that its status doesn't.
  if (line.startsWith("<")) return "";
  return line.length > MAX_QUOTE ? `${line.slice(0, MAX_QUOTE)}…` : line.replace(/\.$/, "");
}

/** How long an answer asks us to wait. */
export function waitOf(headers: Headers): { readonly waitMs?: number } {
  const ms = headers.get("retry-after-ms");
  if (ms && Number(ms) >= 0) return { waitMs: Number(ms) };
  const after = headers.get("retry-after");
  if (!after) return {};
  const wait = Number.isNaN(Number(after)) ? Date.parse(after) - Date.now() : Number(after) * 1000;
  return Number.isNaN(wait) ? {} : { waitMs: Math.max(0, wait) };
}

/** Tells why no connection could be made. */
export function connectionError(error: unknown, { host }: FailedRequest): ModelError {
  const said = error instanceof Error ? `${error.message} ${error.cause ?? ""}` : String(error);
  const state = /refused/i.test(said)
    ? "the connection was refused (is the server running?)"
    : /dns|lookup|ENOTFOUND|EAI_AGAIN/i.test(said)
    ? "its name can't be resolved"
    : `the connection failed (${said.replace(/^error sending request[^:]*: /, "").trim()})`;
  return replyError("unreachable", host, state, { cause: error });
}
