/** A streamed reply whose words come one by one, so many a second. At infinite speed it is as it was. */
export function paced(response: Response, perSecond: number): Response {
  const { body } = response;
  if (perSecond === Infinity || !body) return response;
  const encoder = new TextEncoder();
  const everyMs = 1000 / perSecond;
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      const startedAt = performance.now();
      let words = 0;
      for (const line of (await new Response(body).text()).split("\n\n")) {
        for (const piece of line === "" ? [] : wordsOf(line)) {
          controller.enqueue(encoder.encode(`${piece}\n\n`));
          // By the start, so that timers that are late add up to nothing.
          const waitMs = piece.includes('"content":"')
            ? startedAt + ++words * everyMs - performance.now()
            : 0;
          if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        }
      }
      controller.close();
    },
  });
  return new Response(stream, response);
}

/** A chunk as a provider sends it that tells every word as soon as it has it. */
function wordsOf(line: string): string[] {
  const content = /"content":"([^"\\]+)"/.exec(line)?.[1];
  const words = content?.match(/\s*\S+|\s+$/g);
  return words?.map((word) => line.replace(`"content":"${content}"`, `"content":"${word}"`)) ?? [line];
}
