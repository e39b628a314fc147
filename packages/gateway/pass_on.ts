import { answerHeaders } from "./upstream.ts";

/** The upstream's answer as it is. */
export function passOn(
  response: Response,
  abort: AbortController,
  more: Readonly<Record<string, string>> = {},
): Response {
  const { status, statusText, body } = response;
  const headers = withHeaders(answerHeaders(response), more);
  return new Response(body && streamOf(body.values(), abort), { status, statusText, headers });
}

/** A stream of these bytes that stops the upstream when its reader leaves. */
export function streamOf(
  bytes: AsyncIterator<Uint8Array<ArrayBuffer>>,
  abort: AbortController,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await bytes.next();
      if (done) controller.close();
      else if (value.length > 0) controller.enqueue(value);
      else await this.pull?.(controller);
    },
    cancel(reason) {
      abort.abort(reason);
      bytes.return?.()?.catch(() => {});
    },
  }, { highWaterMark: 0 });
}

/** Headers with more of them. */
export function withHeaders(headers: Headers, more: Readonly<Record<string, string>>): Headers {
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  return headers;
}

/** The header that tells of a warning, if there is one. A header can't hold everything that a sentence can. */
export function warned(warning: string | undefined): Readonly<Record<string, string>> {
  return warning === undefined
    ? {}
    : { "x-tare-warning": warning.replaceAll(/[^\x20-\x7e]+/g, " ").slice(0, 500) };
}
