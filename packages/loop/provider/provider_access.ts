import type { ModelRequest } from "@tare/messages";
import { watchedFetch } from "./stream_model.ts";

/** Which model of a provider, and how to reach it: what the options of every model have. */
export interface ProviderOptions {
  /** Name of the model, as the provider has it. */
  readonly model: string;
  /** Sent as a bearer token. Default: none is sent, as local servers like it. */
  readonly apiKey?: string;
  /** Address of the API. */
  readonly baseURL?: string;
  /** Headers sent with each request, such as `anthropic-beta` or OpenRouter's `HTTP-Referer`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Fields of each request's body beside ours, or instead of them. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Longest time until an answer begins, in milliseconds. Default: 600,000. */
  readonly timeoutMs?: number;
  /** How often a request is repeated that failed before anything was streamed. Default: 2. */
  readonly maxRetries?: number;
  /** Sends the requests. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/** How a provider is reached: what a model's requests, and what is told of their failures, go by. */
interface ProviderAccess {
  readonly model: string;
  readonly apiKey: string | undefined;
  readonly baseURL: string;
  /** Host and port of the provider. */
  readonly host: string;
  readonly extraBody: Readonly<Record<string, unknown>>;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  /** What an SDK's client is made with for a request. */
  readonly clientOptions: (request: Pick<ModelRequest, "progress" | "confirm">) => {
    readonly apiKey: string;
    readonly logLevel: "off";
    readonly defaultHeaders: Record<string, string | null>;
    readonly timeout: number;
    readonly maxRetries: number;
    readonly fetch: typeof globalThis.fetch;
  };
}

/**
 * How the provider is reached that these options name.
 *
 * @param usualURL Its address if they name none.
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` can't stand in a header.
 */
export function accessTo(options: ProviderOptions, usualURL: string): ProviderAccess {
  const { model, apiKey, baseURL = usualURL, extraBody = {}, timeoutMs = 600_000, maxRetries = 2 } = options;
  const { headers = {}, fetch = globalThis.fetch } = options;
  const url = URL.parse(baseURL);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new TypeError(`Cannot use base URL "${baseURL}": it must be like ${usualURL}.`);
  }
  if (apiKey && /[^\x21-\x7e]/.test(apiKey)) {
    throw new TypeError("Cannot use the API key: it holds spaces or other characters that no key has.");
  }
  return {
    model,
    apiKey,
    baseURL,
    host: url.host,
    extraBody,
    timeoutMs,
    maxRetries,
    clientOptions: (request) => ({
      // The SDKs insist on a key: without one, no header is sent.
      apiKey: apiKey || "none",
      logLevel: "off",
      defaultHeaders: { ...headers, ...(!apiKey && { Authorization: null }) },
      timeout: timeoutMs,
      maxRetries,
      fetch: watchedFetch(fetch, request),
    }),
  };
}
