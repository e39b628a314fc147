import { assert, assertEquals } from "@std/assert";
import { Keys, type Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { Telemetry } from "@tare/session/telemetry";
import { recordTelemetry } from "../../tests/telemetry/recorder.ts";
import {
  call,
  chunk,
  completion,
  type Forwarded,
  gatewayed,
  post,
  READ,
  sse,
  UPSTREAM,
} from "./fixture_test.ts";

const BODY = { model: "m", messages: [{ role: "user", content: "Go." }] };

async function reportedBy(
  request: Request,
  answer: (forwarded: Forwarded, index: number) => Response | Promise<Response>,
  read: (response: Response) => Promise<unknown> = (response) => response.text(),
) {
  const recorder = recordTelemetry();
  const { fetch, seen } = gatewayed(answer, { telemetry: new Telemetry("t", { captureContent: true }) });
  await fetch(request).then(read).catch(() => {});
  const { spans, count } = recorder;
  const errors = spans.filter(({ name }) => name.startsWith("chat")).map(({ attributes, ended }) =>
    ended ? attributes["error.type"] ?? "" : "open"
  );
  return { errors, spans, count, seen };
}

Deno.test("telemetry: every call of the upstream has a span, however it ends", async () => {
  const whole = await reportedBy(post(BODY), () => completion({ content: "So." }));
  assertEquals(whole.errors, [""]);
  const [{ name, attributes }] = whole.spans as [typeof whole.spans[0]];
  assertEquals([name, attributes["gen_ai.response.finish_reasons"], attributes["gen_ai.output.messages"]], [
    "chat m",
    ["stop"],
    '[{"role":"assistant","parts":[{"type":"text","content":"So."}],"finish_reason":"stop"}]',
  ]);
  assertEquals((await reportedBy(post(BODY), () => new Response("no", { status: 500 }))).errors, ["500"]);
  assertEquals(
    (await reportedBy(post(BODY), () => {
      throw new TypeError("unreachable");
    })).errors,
    ["TypeError"],
  );
  const off = await reportedBy(post(BODY, { "x-tare": "off" }), () => completion({ content: "So." }));
  assertEquals([off.errors, off.spans[0]!.name], [[""], "chat"]);
  const html = await reportedBy(
    post(BODY),
    () => new Response("<p>", { headers: { "content-type": "text/html" } }),
  );
  assertEquals(html.errors, [""]);
  const empty = await reportedBy(post(BODY, { "x-tare": "off" }), () => new Response(null, { status: 204 }));
  assertEquals(empty.errors, [""]);
});

function begun(end: (controller: ReadableStreamDefaultController<Uint8Array>) => void): Response {
  const bytes = new TextEncoder().encode(`data: ${JSON.stringify(chunk({ content: "So" }))}\n\n`);
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (!hasBegun) controller.enqueue(bytes);
      else end(controller);
      hasBegun = true;
    },
  });
  let hasBegun = false;
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

async function leave({ body }: Response): Promise<void> {
  const reader = body!.getReader();
  await reader.read();
  await reader.cancel();
}

Deno.test("telemetry: an interrupted call is counted as such, and its cached prompt is predicted", async () => {
  for (
    const breakOff of [
      (fetch: (request: Request) => Promise<Response>) => fetch(post({ ...BODY, stream: true })).then(leave),
      (fetch: (request: Request) => Promise<Response>) =>
        fetch(post({ ...BODY, stream: true })).then((response) => response.text()).catch(() => ""),
    ]
  ) {
    const { fetch, ledger } = gatewayed((_, index) =>
      index === 0 ? begun((one) => one.error(new TypeError("x"))) : completion({ content: "So." })
    );
    await breakOff(fetch);
    const { planned: before } = await ledger();
    assertEquals([before.calls, before.estimatedCalls, before.errors], [1, 1, 0]);
    assert(before.costUnits > 0);
    assertEquals(before.outputTokens, 1);
    await (await fetch(post(BODY))).text();
    const { planned } = await ledger();
    assertEquals([planned.sessions, planned.calls, planned.estimatedCalls], [1, 2, 1]);
    assertEquals(planned.baselineCostUnits, planned.costUnits);
  }
});

Deno.test("telemetry: every sent request is counted, with any reply", async () => {
  const json = { headers: { "content-type": "application/json" } };
  // A provider's call fails once its client has disconnected.
  const never = (signal: AbortSignal) =>
    new Promise<Response>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const open = (signal: AbortSignal) => {
    const start = (body: ReadableStreamDefaultController) =>
      signal.addEventListener("abort", () => body.error(signal.reason));
    return new Response(new ReadableStream({ start }), json);
  };
  const delta = {
    tool_calls: [{ index: 0, id: "1", function: { name: "read", arguments: '{"path":"aaaa' } }],
  };
  const stream = { ...BODY, stream: true };
  const cases: readonly [string, object, (signal: AbortSignal) => Response | Promise<Response>, number][] = [
    ["no answer before its client left", BODY, never, 0],
    ["a whole reply that its client didn't wait for", BODY, open, 0],
    ["an unreadable whole reply", BODY, () => new Response("{no json at all", json), 5],
    [
      "a stream that reports nothing",
      stream,
      () => sse(chunk({ content: "So it is." }, "stop"), "[DONE]"),
      3,
    ],
    ["a stream that ends in a call", stream, () => sse(chunk(delta)), 5],
    ["an unreadable stream", stream, () => sse("x".repeat(17 * 2 ** 20)), 0],
  ];
  for (const [name, body, answer, outputTokens] of cases) {
    const { promise: sent, resolve } = Promise.withResolvers<void>();
    const controller = new AbortController();
    const { fetch, ledger } = gatewayed(() => {
      resolve();
      return answer(controller.signal);
    });
    const request = fetch(post(body), controller).then((response) => response.text()).catch(() => {});
    await sent;
    if (answer === never || answer === open) controller.abort();
    await request;
    const { planned } = await ledger();
    assertEquals([planned.calls, planned.estimatedCalls, planned.outputTokens], [1, 1, outputTokens], name);
    assert(planned.costUnits > 0, name);
  }
});

Deno.test("telemetry: a disconnected client cancels the call, and a broken upstream fails it", async () => {
  for (const headers of [{}, { "x-tare": "off" }]) {
    assertEquals(
      (await reportedBy(post({ ...BODY, stream: true }, headers), () => begun(() => {}), leave)).errors,
      [
        "cancelled",
      ],
    );
  }
  const broken = await reportedBy(
    post({ ...BODY, stream: true }),
    () => begun((one) => one.error(new TypeError("x"))),
  );
  assertEquals(broken.errors, ["TypeError"]);
});

Deno.test("telemetry: calls after a recall are siblings in the client's span", async () => {
  const request = post({ ...BODY, stream: true, tools: [READ] }, { traceparent: "theirs" });
  const { errors, spans, count, seen } = await reportedBy(request, (_, index) => {
    const calls = { tool_calls: [{ index: 0, ...call("recall", { ref: "0".repeat(16) }, "r") }] };
    return index === 0
      ? sse(chunk(calls), chunk({}, "tool_calls"), "[DONE]")
      : sse(chunk({ content: "So." }), chunk({}, "stop"), "[DONE]");
  });
  assertEquals(errors, ["", ""]);
  assertEquals(spans.map(({ name, parent }) => [name, parent]), [
    ["theirs", undefined],
    ["chat m", "theirs"],
    ["chat m", "theirs"],
  ]);
  assertEquals(count("tare.recalls"), { "": 1 });
  // The caller of `fetch` adds them.
  assertEquals(seen.map(({ headers }) => headers.get("traceparent")), [null, null]);
});

Deno.test("telemetry: a failing store is counted", async () => {
  const { count } = recordTelemetry();
  const broken = () => Promise.reject(new Error("away"));
  const store = new Proxy({} as Store, { get: (_, name) => name === "shared" ? undefined : broken });
  const { fetch } = gatewayed(() => completion({ content: "So." }), {
    telemetry: new Telemetry("t"),
    store,
  });
  assertEquals((await fetch(post(BODY))).status, 200);
  assert(count("tare.fail_opens", "tare.fail_open.cause").store! > 0);
});

Deno.test("telemetry: failures of planning are counted by their consequence", async () => {
  const unread = await reportedBy(post({ ...BODY, messages: 5 }), () => completion({ content: "So." }));
  assertEquals(unread.count("tare.fail_opens", "tare.fail_open.cause"), { request: 1 });
  const reply = await reportedBy(
    post(BODY),
    () => new Response("{", { headers: { "content-type": "application/json" } }),
  );
  assertEquals([reply.errors, reply.count("tare.fail_opens", "tare.fail_open.cause")], [[""], { reply: 1 }]);
});

Deno.test("gateway() ends and records a key's call when its client disconnects from a silent upstream", async () => {
  const store = memoryStore();
  const keys = new Keys({ store, owners: [], onError() {} });
  await keys.add({ name: "ann", routes: ["gateway"], budgetUsdPerDay: 1 });
  let signal: AbortSignal | undefined;
  const silent = Promise.withResolvers<void>();
  const { fetch, ledger, close } = gatewayed(() => new Response(), {
    ...{ store, keys },
    upstreams: { chat: { ...UPSTREAM, price: () => ({ input: 1, output: 1 }) } },
    fetch(_url, init) {
      signal = init!.signal!;
      const begun = [new TextEncoder().encode(`data: ${JSON.stringify(chunk({ content: "So" }))}\n\n`)];
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => signal!.addEventListener("abort", () => controller.error(signal!.reason)),
        pull(controller) {
          const next = begun.pop();
          if (next) return controller.enqueue(next);
          silent.resolve();
          return new Promise(() => {});
        },
      }, { highWaterMark: 0 });
      return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
    },
  });
  const caller = { name: "ann", routes: ["gateway"] } as const;
  const { body } = await fetch(post({ ...BODY, stream: true }), { caller });
  const reader = body!.getReader();
  const read = (async () => {
    while (!(await reader.read()).done);
  })();
  await silent.promise;
  await reader.cancel();
  await read;
  assertEquals([signal?.aborted, (await ledger("ann")).planned.calls], [true, 1]);
  await close();
  await keys.close();
});
