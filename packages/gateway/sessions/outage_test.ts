import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gateway } from "@tare/gateway";
import { type Store, StoreError } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import {
  assertSame,
  conversation,
  MANNERS,
  play,
  type SentRequest,
  whole,
} from "./conversations_fixture_test.ts";
import { CHAT } from "./dialects_fixture_test.ts";
import { OPTIONS, post } from "../fixture_test.ts";

function faulty() {
  let fault: (<T>(act: () => Promise<T>) => Promise<T>) | undefined;
  const guarded = <T extends object>(whole: T): T =>
    new Proxy(whole, {
      get(_, name) {
        const member: unknown = Reflect.get(whole, name);
        if (name === "shared") return guarded(member as object);
        if (typeof member !== "function") return member;
        return (...args: readonly unknown[]) => fault ? fault(() => member(...args)) : member(...args);
      },
    });
  return {
    inner: guarded<Store>(sharedMemory().open().store),
    break: (by: NonNullable<typeof fault>) => fault = by,
    mend: () => fault = undefined,
  };
}

const full = () => Promise.reject(new StoreError("full", "Cannot write to the store: the disk is full"));
const away = () => Promise.reject(new StoreError("io", "Cannot use the store: it is away"));

const requests: readonly SentRequest[] = conversation(CHAT, MANNERS[0]!).slice(0, 11);

for (
  const [how, fault, wanted] of [["is full", full, "the disk is full"], [
    "is away",
    away,
    "it is away",
  ]] as const
) {
  Deno.test(`outage: a store that ${how} changes no answer, and is reported once per outage`, async () => {
    const { inner, ...store } = faulty();
    const errors: string[] = [];
    const onError = (error: unknown) => errors.push((error as Error).message);
    let opened: ReturnType<typeof gateway> | undefined;
    const played = await play(requests, CHAT, (at, options) => {
      if (at === 2 || at === 8) store.break(fault);
      if (at === 6) store.mend();
      return opened ??= gateway({ ...options, store: inner });
    }, { onError });
    assertSame(played, await whole(requests, CHAT));
    assertEquals(errors.length, 2);
    for (const error of errors) {
      assertStringIncludes(error, "Cannot store sessions: ");
      assertStringIncludes(error, `${wanted}. Requests continue without it`);
    }
    // Unwritten sessions are written at the end, if possible.
    store.mend();
    await opened!.close();
    const again: SentRequest = { ...requests.at(-1)!, pauseMs: (requests.length + 1) * 10_000 };
    const restarted = await play([again], CHAT, (_, options) => gateway({ ...options, store: inner }));
    const expected = await whole([...requests, requests.at(-1)!], CHAT);
    assertEquals(restarted.sent, expected.sent.slice(-1));
    assertStringIncludes(expected.sent.at(-1)!, "[elided: ");
  });
}

Deno.test("outage: a slow store delays only the first requests, and is reported once", async () => {
  const { inner, ...store } = faulty();
  const late: (() => void)[] = [];
  const slow = <T>(act: () => Promise<T>) => new Promise<void>((resolve) => late.push(resolve)).then(act);
  store.break(slow);
  const errors: string[] = [];
  const onError = (error: unknown) => errors.push((error as Error).message);
  let opened: ReturnType<typeof gateway> | undefined;
  const played = await play(requests, CHAT, async (at, options) => {
    // A late response doesn't end the outage.
    if (at === 5) {
      for (const answer of late.splice(0)) answer();
      await new Promise((resolve) => setTimeout(resolve));
    }
    return opened ??= gateway({ ...options, store: inner, retention: { waitMs: 250 } });
  }, { onError });
  assertSame(played, await whole(requests, CHAT));
  assertEquals(errors, [
    "Cannot store sessions: the store hasn't answered within 250 ms. Requests continue without it; " +
    "after a restart a session may be recognized as a new one.",
  ]);
  store.mend();
  for (const answer of late.splice(0)) answer();
  await opened!.close();
});

Deno.test("store: writes begin after an answer's first byte, and its end waits for them", async () => {
  const inner = memoryStore();
  const events: string[] = [];
  let written = () => {};
  const store: Store = {
    ...inner,
    async commit(records) {
      events.push("save");
      await new Promise<void>((resolve) => written = resolve);
      events.push("saved");
      await inner.commit(records);
    },
  };
  let end = () => {};
  const fetch = () => {
    const chunk = (delta: object, finish_reason: string | null) =>
      new TextEncoder().encode(
        `data: ${
          JSON.stringify({
            id: "c",
            object: "chat.completion.chunk",
            choices: [{ index: 0, delta, finish_reason }],
          })
        }\n\n`,
      );
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(chunk({ content: "Hello" }, null));
        await new Promise<void>((resolve) => end = resolve);
        controller.enqueue(chunk({}, "stop"));
        controller.enqueue(new TextEncoder().encode("data: [DONE]\n\n"));
        controller.close();
      },
    });
    return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
  };
  const { fetch: ask, close } = gateway({ ...OPTIONS, fetch, store });
  const body = { model: "m", messages: [{ role: "user", content: "Hello?" }], stream: true };
  const response = (await ask(post(body)))!;
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  assertStringIncludes((await reader.read()).value!, "Hello");
  assertEquals(events, []);
  end();
  const rest: string[] = [];
  const done = (async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest.push(value);
      if (value.includes("[DONE]")) events.push("end");
    }
  })();
  while (events.length === 0) await new Promise((resolve) => setTimeout(resolve));
  assert(!rest.join("").includes("[DONE]"));
  written();
  await done;
  assertEquals(events, ["save", "saved", "end"]);
  await close();
});

Deno.test("store: the bytes of an answer that isn't streamed don't wait for writes", async () => {
  const inner = memoryStore();
  let written = () => {};
  const store: Store = {
    ...inner,
    async commit(records) {
      await new Promise<void>((resolve) => written = resolve);
      await inner.commit(records);
    },
  };
  const fetch = () => CHAT.answer({}, { text: "Hello", id: "m" }, 0);
  const { fetch: ask, close } = gateway({ ...OPTIONS, fetch, store });
  const response = (await ask(post({ model: "m", messages: [{ role: "user", content: "Hello?" }] })))!;
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  assertStringIncludes((await reader.read()).value!, "Hello");
  written();
  assertEquals((await reader.read()).done, true);
  await close();
});

Deno.test("store: stored sessions expire by the gateway's limits", async () => {
  const inner = memoryStore();
  const limits: unknown[] = [];
  const store: Store = {
    ...inner,
    expireSessions(given) {
      limits.push(given);
      return inner.expireSessions(given);
    },
  };
  const nowMs = 90 * 24 * 60 * 60_000;
  for (const more of [{}, { retention: { ...OPTIONS.retention, maxAgeMs: () => 1_000, maxBytes: 5 } }]) {
    const fetch = () => CHAT.answer({}, { text: "Hello", id: "m" }, 0);
    const one = gateway({ ...OPTIONS, fetch, store, now: () => nowMs, ...more });
    const ask = async () =>
      await (await one.fetch(post({ model: "m", messages: [{ role: "user", content: "Hello?" }] })))!.text();
    // At most one cleanup per hour.
    await ask();
    await ask();
    await one.close();
  }
  assertEquals(limits, [
    { kind: "gateway", beforeMs: 60 * 24 * 60 * 60_000, maxBytes: 2 ** 30 },
    { kind: "gateway", beforeMs: nowMs - 1_000, maxBytes: 5 },
  ]);
});
