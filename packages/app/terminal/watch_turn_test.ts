import { assertEquals, assertRejects } from "@std/assert";
import { EMPTY_LEDGER, type LoopEvent } from "@tare/loop";
import { watchTurn } from "./watch_turn.ts";

const END: LoopEvent = { type: "turn_end", reason: "completed", text: "hi", ledger: EMPTY_LEDGER };
const START: LoopEvent = { type: "turn_start", input: "q" };

/** A client whose turns have these events, and whether it was told to cancel. */
function client(started: Promise<readonly LoopEvent[]>) {
  const cancelled: string[] = [];
  return {
    cancelled,
    startTurn: async () => {
      const events = await started;
      return (async function* () {
        yield* events;
      })();
    },
    cancel: (session: string) => {
      cancelled.push(session);
      return Promise.resolve();
    },
  };
}

Deno.test("watchTurn() shows a turn's events and gives its end, which nothing cancels any more", async () => {
  const server = client(Promise.resolve([START, END]));
  const shown: LoopEvent[] = [];
  const turn = watchTurn(server, { session: "s", input: "q", show: (event) => void shown.push(event) });
  assertEquals(await turn.end, END);
  await turn.cancel();
  assertEquals([shown, server.cancelled], [[START, END], []]);
});

Deno.test("watchTurn() cancels once the server has begun the turn, and nothing if it refuses", async () => {
  const started = Promise.withResolvers<readonly LoopEvent[]>();
  const server = client(started.promise);
  const turn = watchTurn(server, { session: "s", input: "q", show() {} });
  const cancel = turn.cancel();
  await Promise.resolve();
  assertEquals(server.cancelled, []);
  started.resolve([START]);
  await cancel;
  assertEquals(server.cancelled[0], "s");
  await assertRejects(() => turn.end, Error, "The server closed the stream before the turn's end.");

  const refusing = client(Promise.reject(new Error("busy")));
  const refused = watchTurn(refusing, { session: "s", input: "q", show() {} });
  await assertRejects(() => refused.end, Error, "busy");
  await refused.cancel();
  assertEquals(refusing.cancelled, []);
});

Deno.test("watchTurn() cancels a turn that can't be shown to its end", async () => {
  const server = client(Promise.resolve([START, END]));
  const turn = watchTurn(server, {
    session: "s",
    input: "q",
    show() {
      throw new Error("Broken pipe");
    },
  });
  await assertRejects(() => turn.end, Error, "Broken pipe");
  assertEquals(server.cancelled, ["s"]);
});
