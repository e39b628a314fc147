/** What a client sees of a turn, in milliseconds from its request. */
export interface SeenTurn {
  /** Until the first event came. */
  readonly firstEventMs: number;
  /** Until the first piece of the model's text came; as long as the turn if none did. */
  readonly firstDeltaMs: number;
  /** Until the turn's `assistant_message` came, its first one. */
  readonly firstReplyMs: number;
  /** Until the turn's stream ended. */
  readonly wholeMs: number;
}

/** Makes a session whose model is the one of this name. */
export async function createSession(server: string, model: string): Promise<string> {
  const { id } = await (await post(`${server}/v1/sessions`, JSON.stringify({ model }))).json();
  return id;
}

/** Plays a turn to its end. @throws {Error} if it doesn't end as completed. */
export async function playTurn(
  server: string,
  session: string,
  input = "What does the file say?",
): Promise<SeenTurn> {
  const startedAt = performance.now();
  let firstEventMs: number | undefined;
  let firstDeltaMs: number | undefined;
  let firstReplyMs = 0;
  let tail = "";
  const body = JSON.stringify({ input });
  const response = await post(`${server}/v1/sessions/${session}/turns`, body);
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    firstEventMs ??= performance.now() - startedAt;
    if (piece.includes('"text_delta"')) firstDeltaMs ??= performance.now() - startedAt;
    tail = (tail + piece).slice(-4000);
    if (firstReplyMs === 0 && tail.includes('"assistant_message"')) {
      firstReplyMs = performance.now() - startedAt;
    }
  }
  if (!tail.includes('"reason":"completed"')) throw new Error(`Cannot measure: a turn ended with ${tail}`);
  const wholeMs = performance.now() - startedAt;
  return {
    firstEventMs: firstEventMs ?? wholeMs,
    firstDeltaMs: firstDeltaMs ?? wholeMs,
    firstReplyMs,
    wholeMs,
  };
}

/** Reads a session's events as they come, and asks for more when a turn has ended, until that says true. */
export async function followTurns(
  { server, id, isOver }: {
    readonly server: string;
    readonly id: string;
    readonly isOver: () => boolean;
  },
): Promise<void> {
  for (let after = 0; !isOver();) {
    const response = await fetch(`${server}/v1/sessions/${id}/events?after=${after}`);
    if (!response.ok) throw new Error(`Cannot measure: following ${id} was answered ${response.status}.`);
    let rest = "";
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const blocks = (rest + piece).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const number = Number(/^id: (\d+)$/m.exec(block)?.[1] ?? after);
        if (/^id: /m.test(block) && number !== after + 1) {
          throw new Error(`Cannot measure: event ${number} came after ${after}.`);
        }
        after = number;
      }
    }
    // Whoever asks again at once would find nothing yet.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Posts JSON, or lines of it. @throws {Error} if it is refused. */
export async function post(url: string, body: string, type = "application/json"): Promise<Response> {
  const response = await fetch(url, { method: "POST", headers: { "content-type": type }, body });
  if (!response.ok) {
    throw new Error(`Cannot measure: ${url} answered ${response.status} ${await response.text()}`);
  }
  return response;
}
