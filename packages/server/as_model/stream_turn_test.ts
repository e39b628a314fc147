import { assertEquals, assertRejects } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { ApiError } from "@tare/wire/internal";
import type { SseMessage } from "@tare/wire/internal/sse";
import {
  cancelWithClient,
  type ConversationTurn,
  readAnswer,
  streamError,
  streamTurn,
} from "./turn_answer.ts";

function turn(cancelled: string[] = []): ConversationTurn {
  return {
    sessionId: "s",
    // deno-lint-ignore require-yield
    parts: async function* () {
      return { text: "a", progress: "", calls: [], finish: "stop" as const, ledger: EMPTY_LEDGER };
    }(),
    cancel: () => cancelled.push("cancelled"),
    done: Promise.resolve({ sessionId: "s", messages: 1 }),
    remember: () => Promise.resolve(),
  };
}

Deno.test("streamTurn() sends the messages and names the session", async () => {
  const cancelled: string[] = [];
  const messages = async function* (): AsyncGenerator<SseMessage, void> {
    yield { data: "1" };
    yield { event: "e", data: "2" };
  };
  const response = await streamTurn(turn(cancelled), { messages: messages(), heartbeat: {} });
  assertEquals(response.headers.get("tare-session"), "s");
  assertEquals([await response.text(), cancelled], ["data: 1\n\nevent: e\ndata: 2\n\n", []]);
});

Deno.test("streamTurn() throws an error before the first message", async () => {
  // deno-lint-ignore require-yield
  const messages = async function* (): AsyncGenerator<SseMessage, void> {
    throw new Error("none");
  };
  await assertRejects(() => streamTurn(turn(), { messages: messages(), heartbeat: {} }), Error, "none");
});

Deno.test("streamTurn() cancels the turn of a client that disconnects from an idle stream", async () => {
  const cancelled: string[] = [];
  const messages = async function* (): AsyncGenerator<SseMessage, void> {
    yield { data: "1" };
    await new Promise(() => {});
  };
  const response = await streamTurn(turn(cancelled), { messages: messages(), heartbeat: {} });
  const reader = response.body!.getReader();
  await reader.read();
  const waiting = reader.read();
  await reader.cancel();
  assertEquals([(await waiting).done, cancelled], [true, ["cancelled"]]);
});

Deno.test("cancelWithClient() cancels the turn if the signal is or was aborted", () => {
  const cancelled: string[] = [];
  const controller = new AbortController();
  cancelWithClient(turn(cancelled), controller.signal);
  assertEquals(cancelled, []);
  controller.abort();
  assertEquals(cancelled, ["cancelled"]);
  cancelWithClient(turn(cancelled), controller.signal);
  assertEquals(cancelled, ["cancelled", "cancelled"]);
});

Deno.test("readAnswer() returns the answer", async () => {
  assertEquals((await readAnswer(turn())).text, "a");
});

Deno.test("streamError() reports hidden errors to onError", () => {
  const reported: unknown[] = [];
  const bug = new Error("secret");
  const body = streamError(bug, (error) => reported.push(error));
  assertEquals([body.error.code, reported], ["internal_error", [bug]]);
  const known = new ApiError(502, "No.", { code: "bad_key" });
  assertEquals([streamError(known, (error) => reported.push(error)).error.message, reported], ["No.", [bug]]);
});
