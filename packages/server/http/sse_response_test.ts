import { assertEquals, assertRejects } from "@std/assert";
import type { SseMessage } from "@tare/wire/internal/sse";
import { sseResponse } from "./dispatcher.ts";

interface Timer {
  readonly ms: number;
  readonly fire: () => void;
}

/** Timers that the test fires; `started` returns the next one. */
function handTimer() {
  const running = new Set<Timer>();
  let next = Promise.withResolvers<Timer>();
  return {
    running,
    started: () => next.promise,
    after(ms: number, fire: () => void) {
      const timer = { ms, fire };
      running.add(timer);
      next.resolve(timer);
      next = Promise.withResolvers();
      return () => void running.delete(timer);
    },
  };
}

function reader(response: Response): () => Promise<string | undefined> {
  const chunks = response.body!.getReader();
  return async () => {
    const { value } = await chunks.read();
    return value && new TextDecoder().decode(value);
  };
}

Deno.test("sseResponse() sends a comment after each 15 s of silence, and events immediately", async () => {
  const { running, started, after } = handTimer();
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const messages = async function* (): AsyncGenerator<SseMessage> {
    await first.promise;
    yield { id: 1, data: "{}" };
    await second.promise;
    yield { event: "end", data: "2" };
  };
  const response = sseResponse(messages(), { after });
  assertEquals([...response.headers], [
    ["cache-control", "no-store"],
    ["content-type", "text/event-stream"],
    ["x-accel-buffering", "no"],
  ]);
  assertEquals(running.size, 0);
  const read = reader(response);
  const silence = async () => {
    const timer = started();
    const chunk = read();
    const { ms, fire } = await timer;
    assertEquals(ms, 15_000);
    fire();
    assertEquals(await chunk, ": heartbeat\n\n");
  };
  await silence();
  await silence();
  first.resolve();
  assertEquals(await read(), "id: 1\ndata: {}\n\n");
  await silence();
  second.resolve();
  assertEquals(await read(), "event: end\ndata: 2\n\n");
  assertEquals(await read(), undefined);
  assertEquals(running.size, 0);
});

Deno.test("sseResponse() stops its timer and the iteration after a disconnect", async () => {
  let ended = false;
  const gate = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const messages = async function* (): AsyncGenerator<SseMessage> {
    try {
      yield { data: "1" };
      await gate.promise;
      yield { data: "2" };
    } finally {
      ended = true;
      end.resolve();
    }
  };
  // A real timer, which the sanitizer checks.
  const chunks = sseResponse(messages()).body!.getReader();
  await chunks.read();
  const waiting = chunks.read();
  await chunks.cancel();
  assertEquals((await waiting).done, true);
  gate.resolve();
  await end.promise;
  assertEquals(ended, true);
});

Deno.test("sseResponse() breaks off when its messages fail", async () => {
  // deno-lint-ignore require-yield
  const messages = async function* (): AsyncGenerator<SseMessage> {
    throw new Error("broken");
  };
  await assertRejects(() => sseResponse(messages()).text(), Error, "broken");
});
