type Handler = (request: Request) => Promise<Response>;

interface Item {
  readonly type?: string;
  readonly id?: string;
}

/** Adds stored responses to the simulated provider, unless `store: false`. */
export function responsesUpstream(provider: Handler): Handler {
  const conversations = new Map<string, readonly Item[]>();
  const items = new Map<string, Item>();
  return async (request) => {
    if (new URL(request.url).pathname !== "/v1/responses") return await provider(request);
    const { previous_response_id: previous, ...body } = await request.json();
    const before = previous ? conversations.get(previous) : [];
    if (!before) return refusal(`Previous response ${previous} was not found.`);
    const input: Item[] = [...before];
    for (const item of typeof body.input === "string" ? [userItem(body.input)] : body.input) {
      const known = item.type === "item_reference" ? items.get(String(item.id)) : item;
      if (!known) return refusal(`Item ${item.id} was not found.`);
      input.push(known);
    }
    const answer = await provider(
      new Request(request.url, {
        method: "POST",
        headers: { authorization: request.headers.get("authorization") ?? "" },
        body: JSON.stringify({ ...body, input }),
      }),
    );
    if (!answer.ok || body.store === false) return answer;
    const text = await answer.text();
    const { id, output } = body.stream
      ? JSON.parse(text.trimEnd().split("\ndata: ").at(-1)!).response
      : JSON.parse(text);
    conversations.set(id, [...input, ...output]);
    for (const item of output) items.set(item.id, item);
    return new Response(text, answer);
  };
}

function refusal(message: string): Response {
  return Response.json({ error: { message, type: "invalid_request_error", param: null, code: null } }, {
    status: 400,
  });
}

function userItem(text: string): Item & { readonly role: string; readonly content: string } {
  return { type: "message", role: "user", content: text };
}
