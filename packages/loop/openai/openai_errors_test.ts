import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ModelError } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import { ask, delta, reply, REQUEST, sse, stream } from "../provider_fixture_test.ts";

const KEY = "sk-very-secret";

async function judged(status: number, body: unknown, headers: Record<string, string> = {}) {
  const answer = typeof body === "string"
    ? new Response(body, { status, headers })
    : Response.json(body, { status, headers });
  const { error } = await ask(answer, { apiKey: KEY });
  assert(error instanceof ModelError);
  const match = /^Cannot get a reply from 127\.0\.0\.1:\d+: (.*)\.$/.exec(error.message);
  return { code: error.code, state: match?.[1], retryAfterMs: error.retryAfterMs, error };
}

Deno.test("toModelError() classifies a provider's refusals", async () => {
  const errorBody = (message: string, code: string | null = null) => ({
    error: { message, type: "x", code },
  });
  for (
    const [status, body, code, state] of [
      [401, errorBody("Incorrect API key provided"), "bad_key", "the API key was refused (401)"],
      [
        403,
        errorBody("Country not supported."),
        "bad_key",
        "the API key doesn't permit this (403: Country not supported)",
      ],
      [
        404,
        errorBody("No model m"),
        "no_such_model",
        'there is no model "m", or the base URL is wrong (404: No model m)',
      ],
      [404, "<html>nginx</html>", "no_such_model", 'there is no model "m", or the base URL is wrong (404)'],
      [
        404,
        { error: "model 'm' not found" },
        "no_such_model",
        "there is no model \"m\", or the base URL is wrong (404: model 'm' not found)",
      ],
      [
        400,
        errorBody("m is not a valid model ID"),
        "no_such_model",
        'there is no model "m", or the base URL is wrong (400: m is not a valid model ID)',
      ],
      [
        400,
        errorBody("Model Not Exist"),
        "no_such_model",
        'there is no model "m", or the base URL is wrong (400: Model Not Exist)',
      ],
      [
        400,
        errorBody("Too big.", "context_length_exceeded"),
        "prompt_too_long",
        "the prompt is too long for m (400: Too big)",
      ],
      [413, "", "prompt_too_long", "the prompt is too long for m (413)"],
      [400, errorBody("Bad temperature."), "bad_request", "it refused the request (400: Bad temperature)"],
      [422, { detail: "Bad  field\n" }, "bad_request", "it refused the request (422: Bad field)"],
      [422, { problem: 1 }, "bad_request", 'it refused the request (422: {"problem":1})'],
      [
        402,
        errorBody("Insufficient Balance"),
        "insufficient_quota",
        "the account's quota or credit is exhausted (402: Insufficient Balance). Check its plan and billing",
      ],
      [500, errorBody("Oops"), "provider_error", "it failed (500: Oops)"],
      [502, "<html>Bad Gateway</html>", "provider_error", "it failed (502)"],
      [503, "", "provider_error", "it failed (503)"],
    ] as const satisfies readonly (readonly [number, unknown, ModelError["code"], string])[]
  ) {
    const { code: actual, state: errorState } = await judged(status, body);
    assertEquals([actual, errorState], [code, state]);
  }
});

Deno.test("toModelError() tells an exhausted quota from a rate limit", async () => {
  for (
    const [status, message, expected, code] of [
      [429, "You exceeded your current quota, please check your plan.", true, "insufficient_quota"],
      [429, "Pay.", true, "insufficient_quota"],
      [429, "You exceeded your current quota, please check your plan.", true],
      [400, "Your credit balance is too low to access the Anthropic API.", true],
      [402, "Insufficient credits. Add more.", true],
      [429, "You exceeded your current quota, please check your plan. Please retry in 21.5s.", false],
      [429, "Rate limit reached for m in organization o on tokens per min (TPM).", false],
    ] as const
  ) {
    const judgement = await judged(status, { error: { message, code } });
    assertEquals(judgement.code, expected ? "insufficient_quota" : "rate_limited", message);
    assertEquals(judgement.state?.includes("rate limit"), !expected);
  }
});

Deno.test("toModelError() recognizes messages about a prompt that is too long", async () => {
  for (
    const message of [
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      "This endpoint's maximum context length is 32768 tokens.",
      "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
      "prompt is too long: 210000 tokens > 200000 maximum",
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
      "the request exceeds the available context size. try increasing the context size or enable context shift",
      "Your request exceeded model token limit: 8192",
      "prompt token count of 70000 exceeds the limit of 64000",
      "Prompt contains 40000 tokens and is too large for this model",
    ]
  ) assertEquals([message, (await judged(400, { error: { message } })).code], [message, "prompt_too_long"]);
  const message = "max_tokens is too large: 99999. This model supports at most 4096 completion tokens.";
  assertEquals((await judged(400, { error: { message } })).code, "bad_request");
});

Deno.test("toModelError() reads the message of an upstream provider", async () => {
  const raw = '{"error":{"code":"context_length_exceeded"}}';
  const { code, state } = await judged(400, {
    error: { message: "Provider returned error", code: 400, metadata: { raw } },
  });
  assertEquals([code, state], [
    "prompt_too_long",
    `the prompt is too long for m (400: Provider returned error ${raw})`,
  ]);
});

Deno.test("toModelError() reports the wait of a rate limit", async () => {
  const body = { error: { message: "Slow down." } };
  for (
    const [headers, expected] of [
      [{}, undefined],
      [{ "retry-after": "7" }, 7_000],
      [{ "retry-after-ms": "250", "retry-after": "7" }, 250],
      [{ "retry-after": "soon" }, undefined],
      [{ "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, 0],
    ] as const
  ) {
    const { code, retryAfterMs, state } = await judged(429, body, headers);
    assertEquals([code, retryAfterMs], ["rate_limited", expected]);
    const wait = expected === undefined ? "" : ` and requests a wait of ${expected / 1000} s`;
    assertEquals(state, `it reports an exceeded rate limit${wait} (429: Slow down)`);
  }
  const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
  const { retryAfterMs = 0 } = await judged(429, body, { "retry-after": inAnHour });
  assert(retryAfterMs > 3_000_000 && retryAfterMs <= 3_600_000);
});

Deno.test("toModelError() never contains the key, wherever the provider quotes it", async () => {
  for (const status of [400, 401, 403, 404, 429, 500]) {
    for (
      const body of [{ error: { message: `Key ${KEY}` } }, `Key ${KEY}`, {
        error: { metadata: { raw: KEY } },
      }]
    ) {
      const { error } = await judged(status, body);
      assert(!Deno.inspect(error, { depth: 10 }).includes(KEY));
    }
  }
  const { error } = await ask(new Response("{}", { status: 401 }));
  assertStringIncludes(`${error?.message}`, "it requires an API key (401).");
});

Deno.test("toModelError() reports the variable of the key if it is refused or missing", async () => {
  const apiKeyName = "OPENAI_API_KEY";
  const messageFor = async (more: { readonly apiKey?: string }) =>
    (await ask(new Response("{}", { status: 401 }), { apiKeyName, ...more })).error?.message;
  assertStringIncludes(
    `${await messageFor({ apiKey: KEY })}`,
    "the API key in OPENAI_API_KEY was refused (401).",
  );
  assertStringIncludes(`${await messageFor({})}`, "it requires an API key (401). Set OPENAI_API_KEY.");
});

Deno.test("toModelError() truncates a provider's message", async () => {
  const { state } = await judged(400, { error: { message: "x".repeat(10_000) } });
  assertEquals(state?.length, "it refused the request (400: ".length + 500 + "…)".length);
});

Deno.test("toModelError() classifies errors in the middle of a stream by their code", async () => {
  for (
    const [body, code] of [
      [{ message: "Slow down", code: 429 }, "rate_limited"],
      [{ message: "Upstream died", code: 502 }, "provider_error"],
      [{ message: "Upstream died" }, "provider_error"],
      ["Upstream died", "provider_error"],
      [{ message: "Too long", code: "context_length_exceeded" }, "prompt_too_long"],
    ] as const
  ) {
    const { error, events } = await ask(reply(delta({ content: "Hal" }), { error: body }));
    assertEquals([error?.code, events.length], [code, 1]);
    assertStringIncludes(error?.message ?? "", typeof body === "string" ? body : body.message);
  }
  const named = `event: error\ndata: {"message":"Slow down","code":429}\n\n`;
  const { error, events } = await ask(stream(sse(delta({ content: "Hal" })), named, sse("[DONE]")));
  assertEquals([error?.code, events.length], ["rate_limited", 1]);
});

Deno.test("openaiModel() requests confirmation before each request, retries included", async () => {
  let requestCount = 0;
  const confirm = () => {
    if (++requestCount > 1) throw new Error("Another server has it.");
  };
  const answers = [
    new Response("", { status: 500, headers: { "retry-after-ms": "1" } }),
    reply(delta({ content: "Late." }, "stop")),
  ];
  const { error, bodies } = await ask(answers, { maxRetries: 1, request: { confirm } });
  assert(error instanceof ModelError);
  assertEquals([requestCount, bodies.length], [2, 1]);
});

Deno.test("toModelError() reports which host is unreachable, and why", async () => {
  // A port that was free a moment ago.
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  for (
    const [baseURL, message] of [
      [
        `http://127.0.0.1:${port}/v1`,
        `Cannot get a reply from 127.0.0.1:${port}: the connection was refused (is the server running?).`,
      ],
      ["http://missing.invalid/v1", "Cannot get a reply from missing.invalid: its name can't be resolved."],
    ] as const
  ) {
    const fetchFailing: typeof fetch = baseURL.includes("invalid")
      // A lookup would leave the machine.
      ? () =>
        Promise.reject(
          new TypeError("error sending request: dns error: failed to lookup address information"),
        )
      : fetch;
    const model = openaiModel({ model: "m", baseURL, maxRetries: 0, apiKey: KEY, fetch: fetchFailing });
    const error = await Array.fromAsync(model(REQUEST)).catch((error) => error);
    assertEquals([error.code, error.message], ["unreachable", message]);
    assert(!Deno.inspect(error, { depth: 10 }).includes(KEY));
  }
});

Deno.test("toModelError() reports the timeout", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const model = openaiModel({
    model: "m",
    baseURL: `http://127.0.0.1:${listener.addr.port}`,
    maxRetries: 0,
    timeoutMs: 20,
  });
  const error = await Array.fromAsync(model(REQUEST)).catch((error) => error);
  assertEquals([error.code, error.message], [
    "unreachable",
    `Cannot get a reply from 127.0.0.1:${listener.addr.port}: no response began within 0.02 s.`,
  ]);
  listener.close();
});

Deno.test("toModelError() reports a stream without JSON", async () => {
  const { error } = await ask(reply(delta({ content: "Hal" }), "{oops"));
  assertEquals(error?.code, "bad_response");
  assertStringIncludes(`${error?.message}`, "the stream contains an event that is not JSON.");
});
