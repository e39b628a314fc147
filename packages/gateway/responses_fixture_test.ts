/**
 * An upstream of the responses format with a script. Holds no tests.
 * @module
 */

/** A reply: its items. */
export type ScriptedItems = readonly Readonly<Record<string, unknown>>[];

export interface ResponsesRequest {
  readonly input: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly Readonly<Record<string, unknown>>[];
  readonly previous_response_id?: string;
}

export function responsesUpstream(
  replies: readonly (ScriptedItems | ((sentRequest: ResponsesRequest) => ScriptedItems))[],
): {
  readonly fetch: typeof fetch;
  readonly requests: ResponsesRequest[];
} {
  const requests: ResponsesRequest[] = [];
  return {
    requests,
    fetch: (async (...args: Parameters<typeof fetch>) => {
      const body = await new Request(...args).json();
      const reply = replies[requests.length];
      requests.push(body);
      const output = typeof reply === "function" ? reply(body) : reply ?? [];
      const usage = {
        input_tokens: Math.ceil(JSON.stringify(body).length / 4),
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 10,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 10 + Math.ceil(JSON.stringify(body).length / 4),
      };
      const response = {
        id: `resp_${requests.length}`,
        object: "response",
        created_at: 1,
        model: body.model,
        status: "completed",
        output,
        usage,
      };
      if (!body.stream) return Response.json(response);
      let sequence_number = 0;
      const write = (type: string, more: object) =>
        `event: ${type}\ndata: ${JSON.stringify({ type, ...more, sequence_number: sequence_number++ })}\n\n`;
      const events = [
        write("response.created", {
          response: { ...response, status: "in_progress", output: [], usage: null },
        }),
        ...output.flatMap((item, output_index) => [
          write("response.output_item.added", { output_index, item }),
          write("response.output_item.done", { output_index, item }),
        ]),
        write("response.completed", { response }),
      ];
      return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
    }) as typeof fetch,
  };
}

export function functionCall(name: string, args: unknown, call_id: string): ScriptedItems[number] {
  return {
    type: "function_call",
    id: `fc_${call_id}`,
    call_id,
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  };
}

export function textItems(text: string, id = "msg_1"): ScriptedItems[number] {
  return {
    type: "message",
    id,
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
}
