export interface Exchange {
  readonly path: string;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly answer: string;
  /** Stream event with the usage; empty if the body has none. */
  readonly tally: string;
}

/** Returns an upstream that accepts everything and cycles through all forms of providers' answers. */
export function oddUpstream(): { readonly fetch: typeof fetch; readonly exchanges: Exchange[] } {
  const exchanges: Exchange[] = [];
  let requestCount = 0;
  return {
    exchanges,
    async fetch(input, init) {
      const request = new Request(input, init);
      const body = await request.bytes();
      const path = new URL(request.url).pathname;
      const number = requestCount++;
      const answer = answerOf(readFlags(body), { number, path });
      const headers = { ...answer.headers, "x-request-id": `req_${number}`, "x-ratelimit-remaining": "7" };
      exchanges.push({ path, body, ...answer, headers });
      return new Response(pieces(answer.answer, 1 + number % 97), { status: answer.status, headers });
    },
  };
}

interface Flags {
  readonly stream: boolean;
  readonly usage: boolean;
}

function readFlags(body: Uint8Array<ArrayBuffer>): Flags {
  try {
    const read = JSON.parse(new TextDecoder().decode(body));
    return { stream: read?.stream === true, usage: read?.stream_options?.include_usage === true };
  } catch {
    return { stream: false, usage: false };
  }
}

type Answer = Pick<Exchange, "status" | "headers" | "answer" | "tally">;

const JSON_TYPE = { "content-type": "application/json" };

function answerOf({ stream, usage }: Flags, { number, path }: { number: number; path: string }): Answer {
  const whole = (status: number, headers: Answer["headers"], answer: string) => ({
    status,
    headers,
    answer,
    tally: "",
  });
  if (number % 5 === 1) {
    return whole(400, JSON_TYPE, '{"error": {"message":"No.", "type":"invalid_request_error", "n":1.0}}\n');
  }
  if (number % 17 === 2) {
    return whole(429, { ...JSON_TYPE, "retry-after": "3" }, '{"error":{"message":"Slow."}}');
  }
  if (number % 23 === 3) return whole(502, { "content-type": "text/html" }, "<h1>Bad gateway</h1>");
  if (number % 29 === 4) return whole(200, JSON_TYPE, '{"choices":');
  if (stream) return streamed(path, usage);
  return whole(200, JSON_TYPE, WHOLE[path] ?? COMPLETION);
}

const MESSAGE =
  '{ "type":"message","id":"msg_1","role":"assistant","content":[{"type":"text","text":"Hé 🎈","x":1.50}],' +
  '"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1,"cache_read_input_tokens":0}, "x":1.50 }';

const RESPONSE =
  '{ "id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"m",' +
  '"role":"assistant","content":[{"type":"output_text","text":"Hé 🎈"}]}],' +
  '"usage":{"input_tokens":9,"output_tokens":1,"input_tokens_details":{"cached_tokens":0}}, "x":1.50 }';

const COMPLETION = '{ "id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hé 🎈",' +
  '"sig":"\\u00e9"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}, "x":1.50 }';

function streamed(path: string, usage: boolean): Answer {
  const head = { status: 200, headers: { "content-type": "text/event-stream; charset=utf-8" } };
  const events = STREAMED[path];
  if (events !== undefined) return { ...head, answer: events, tally: "" };
  const chunk = (text: string) =>
    `data: {"choices":[{"index":0,"delta":{"content":${JSON.stringify(text)}}}],"x":1.0}\n\n`;
  const tally = usage ? 'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\n' : "";
  const text = `: keep-alive\n\n${chunk("Hé")}data:${chunk(" 🎈").slice(6)}`;
  return { ...head, answer: `${text}${tally}data: [DONE]\n\n`, tally };
}

const RESPONSE_EVENTS = ": hello\r\n\r\nevent: response.created\r\n" +
  'data: {"type":"response.created","response":{"id":"resp_1"}}\r\n\r\nevent: response.output_text.delta\n' +
  'data: {"type":"response.output_text.delta","delta":"Hé 🎈"}\n\nevent: response.completed\n' +
  'data: {"type":"response.completed","response":{"id":"resp_1","output":[],"usage":{"input_tokens":9,' +
  '"output_tokens":1}}}\n\n';

const MESSAGE_EVENTS = "event: message_start\r\n" +
  'data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":9}}}\r\n\r\n: hello\n\n' +
  'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""},"x":1.0}\n\n' +
  "event: content_block_delta\n" +
  'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé 🎈"}}\n\n' +
  'data: {"type":"content_block_stop","index":0}\n\nevent: message_delta\n' +
  'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1.0}}\n\n' +
  'event: message_stop\ndata: {"type":"message_stop"}\n\n';

const WHOLE: Readonly<Record<string, string>> = { "/v1/responses": RESPONSE, "/v1/messages": MESSAGE };
const STREAMED: Readonly<Record<string, string>> = {
  "/v1/responses": RESPONSE_EVENTS,
  "/v1/messages": MESSAGE_EVENTS,
};

function pieces(text: string, size: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at += size));
    },
  });
}
