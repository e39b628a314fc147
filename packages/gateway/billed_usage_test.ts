import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { chooseProfile, listPrice } from "@tare/planner";
import { callCost } from "@tare/planner/internal/parts";
import type { Usage } from "@tare/messages";
import { memoryStore } from "@tare/session/sqlite";
import { MessageAssembler, ReplyAssembler, ResponseAssembler } from "@tare/wire/internal";
import fc, { cases } from "../../tests/cases.ts";
import { chunk, gatewayed, post, sse, UPSTREAM } from "./fixture_test.ts";

interface Billed {
  readonly fresh: number;
  readonly cached: number;
  readonly short: number;
  readonly hour: number;
  readonly output: number;
}

interface Bill extends Billed {
  readonly protocol: "chat" | "responses" | "messages";
  readonly stream: boolean;
  readonly tier: string | undefined;
  readonly region: string | undefined;
  readonly tools: Readonly<Record<string, number>>;
  /** Later reads of the prompt, which the provider's own tools cause. */
  readonly again: readonly Billed[];
  readonly inner: readonly (Billed & { readonly type: string; readonly model?: string })[];
  readonly usd: number | undefined;
}

const MODELS = { chat: "openai/gpt-5.5", responses: "gpt-5.5", messages: "claude-opus-4-8" } as const;

const PATHS = { chat: "/chat/completions", responses: "/responses", messages: "/messages" } as const;

/** Prices as published: input, output, cache reads, writes for five minutes and for an hour. */
const PRICES: Readonly<Record<string, readonly [number, number, number, number, number]>> = {
  "gpt-5.5": [5, 30, 0.5, 5, 5],
  "claude-opus-4-8": [5, 25, 0.5, 6.25, 10],
  "claude-sonnet-5": [2, 10, 0.2, 2.5, 4],
};

const TIERS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "gpt-5.5": { priority: 2.5, flex: 0.5, batch: 0.5 },
  "claude-opus-4-8": { fast: 2, batch: 0.5 },
};

const TOOLS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "gpt-5.5": { web_search: 0.01, file_search: 0.0025, mcp: 0 },
  "claude-opus-4-8": { web_search: 0.01, web_fetch: 0 },
};

const LONG = 272_000;

function dollars(bill: Bill): number | null {
  if (bill.usd !== undefined) return bill.usd;
  const model = MODELS[bill.protocol].split("/").at(-1)!;
  const regional = bill.region === undefined
    ? 1
    : bill.region === "us" && model.startsWith("claude")
    ? 1.1
    : NaN;
  const priced = (of: Billed, name: string, tier: number) => {
    const [input, output, read, short, hour] = PRICES[name] ?? [NaN, NaN, NaN, NaN, NaN];
    const isLong = name === "gpt-5.5" && promptOf(of) > LONG;
    const [inTimes, outTimes] = isLong ? [2, 1.5] : [1, 1];
    const factor = isLong && bill.tier === "priority" ? NaN : tier;
    return factor * regional *
      (inTimes * (of.fresh * input + of.cached * read + of.short * short + of.hour * hour) +
        outTimes * of.output * output) /
      1e6;
  };
  const tier = bill.tier === undefined ? 1 : TIERS[model]![bill.tier] ?? NaN;
  let usd = [bill, ...bill.again].reduce((sum, read) => sum + priced(read, model, tier), 0);
  for (const [tool, uses] of Object.entries(bill.tools)) usd += uses * (TOOLS[model]![tool] ?? NaN);
  for (const call of bill.inner) {
    usd += call.model === undefined
      ? call.type === "compaction" ? priced(call, model, tier) : NaN
      : priced(call, call.model, bill.tier === undefined ? 1 : NaN);
  }
  return Number.isNaN(usd) ? null : usd;
}

function totalOf({ again, ...first }: Bill): Billed {
  return again.reduce<Billed>((sum, read) => ({
    fresh: sum.fresh + read.fresh,
    cached: sum.cached + read.cached,
    short: sum.short + read.short,
    hour: sum.hour + read.hour,
    output: sum.output + read.output,
  }), first);
}

function promptOf({ fresh, cached, short, hour }: Billed): number {
  return fresh + cached + short + hour;
}

function messagesUsage({ fresh, cached, short, hour, output }: Billed): object {
  return {
    input_tokens: fresh,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: short + hour,
    cache_creation: { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: hour },
    output_tokens: output,
  };
}

function replyOf(bill: Bill): Response {
  const { protocol, stream, tier, region, tools, again, inner, usd } = bill;
  const cost = usd !== undefined && { cost: usd };
  if (protocol === "messages") {
    const usage = {
      ...messagesUsage({ ...bill, output: totalOf(bill).output }),
      ...(tier === "fast" ? { speed: tier, service_tier: "standard" } : { service_tier: tier ?? "standard" }),
      inference_geo: region ?? "global",
      server_tool_use: Object.fromEntries(
        Object.entries(tools).map(([name, uses]) => [`${name}_requests`, uses]),
      ),
      iterations: [
        ...inner.map(({ type, model, ...of }) => ({ type, ...(model && { model }), ...messagesUsage(of) })),
        ...[bill, ...again].map((read) => ({ type: "message", ...messagesUsage(read) })),
      ],
      ...cost,
    };
    const message = { id: "msg_1", type: "message", role: "assistant", model: MODELS[protocol] };
    const content = [{ type: "text", text: "So." }];
    if (!stream) return Response.json({ ...message, content, stop_reason: "end_turn", usage });
    const begun = { ...messagesUsage({ ...bill, output: 1 }) };
    return sse(
      { type: "message_start", message: { ...message, content: [], usage: begun } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "So." } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
      { type: "message_stop" },
    );
  }
  const service_tier = tier ?? "default";
  if (protocol === "chat") {
    const usage = {
      prompt_tokens: promptOf(bill),
      completion_tokens: bill.output,
      prompt_tokens_details: { cached_tokens: bill.cached },
      ...(Object.keys(tools).length > 0 && {
        server_tool_use: Object.fromEntries(
          Object.entries(tools).map(([name, uses]) => [`${name}_requests`, uses]),
        ),
      }),
      ...cost,
    };
    if (stream) {
      return sse(
        chunk({ content: "So." }, null, { service_tier }),
        chunk({}, "stop", { service_tier }),
        { id: "c", object: "chat.completion.chunk", choices: [], usage, service_tier },
        "[DONE]",
      );
    }
    const choices = [{ index: 0, message: { role: "assistant", content: "So." }, finish_reason: "stop" }];
    return Response.json({ id: "c", object: "chat.completion", choices, usage, service_tier });
  }
  const output = [
    ...Object.entries(tools).flatMap(([name, uses]) =>
      Array.from(
        { length: uses },
        (_, at) => ({ type: `${name}_call`, id: `${name}_${at}`, status: "completed" }),
      )
    ),
    {
      ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
      content: [{ type: "output_text", text: "So.", annotations: [] }],
    },
  ];
  const response = {
    ...{
      id: "resp_1",
      object: "response",
      status: "completed",
      model: MODELS[protocol],
      service_tier,
      output,
    },
    usage: {
      input_tokens: promptOf(bill),
      input_tokens_details: { cached_tokens: bill.cached },
      output_tokens: bill.output,
      total_tokens: promptOf(bill) + bill.output,
      ...cost,
    },
  };
  if (!stream) return Response.json(response);
  return sse(
    {
      type: "response.created",
      response: { ...response, status: "in_progress", service_tier: "auto", output: [] },
    },
    ...output.map((item, at) => ({ type: "response.output_item.done", output_index: at, item })),
    { type: "response.completed", response },
  );
}

async function readByAgent(made: Bill): Promise<Usage | undefined> {
  const reply = await replyOf({ ...made, stream: true }).text();
  const assembler = {
    chat: () => new ReplyAssembler(),
    responses: () => new ResponseAssembler(),
    messages: () => new MessageAssembler(),
  }[made.protocol]();
  for (const [, data = ""] of reply.matchAll(/^data: (\{.*)$/gm)) assembler.read(JSON.parse(data));
  return assembler.finish(new Set())?.usage;
}

const tokens = (max: number) => fc.nat({ max });

const billed = (max: number, isWritten: boolean) =>
  fc.record({
    fresh: tokens(max).map((some) => some + 1),
    cached: tokens(max),
    short: isWritten ? tokens(max) : fc.constant(0),
    hour: isWritten ? tokens(max) : fc.constant(0),
    output: tokens(9_000),
  });

const bill: fc.Arbitrary<Bill> = fc.constantFrom("chat", "responses", "messages").chain((protocol) => {
  const isMessages = protocol === "messages";
  const tools = isMessages
    ? ["web_search", "web_fetch", "dowsing"]
    : ["web_search", "file_search", "dowsing"];
  return fc.tuple(
    billed(200_000, isMessages),
    fc.record({
      protocol: fc.constant(protocol as Bill["protocol"]),
      stream: fc.boolean(),
      tier: fc.constantFrom(
        undefined,
        undefined,
        ...isMessages ? ["fast", "batch"] : ["priority", "flex"],
        "odd",
      ),
      region: isMessages ? fc.constantFrom(undefined, undefined, "us", "moon") : fc.constant(undefined),
      tools: fc.dictionary(fc.constantFrom(...tools), fc.integer({ min: 1, max: 4 }), { maxKeys: 2 }),
      inner: isMessages
        ? fc.array(
          fc.tuple(
            billed(90_000, true),
            fc.constantFrom(
              { type: "compaction" },
              { type: "advisor_message", model: "claude-sonnet-5" },
              { type: "advisor_message", model: "claude-unknown-9" },
              { type: "unheard_of" },
            ),
          ).map(([of, call]) => ({ ...of, ...call })),
          { maxLength: 2 },
        )
        : fc.constant([]),
      again: isMessages ? fc.array(billed(90_000, true), { maxLength: 2 }) : fc.constant([]),
      usd: fc.constantFrom(undefined, undefined, 0, 0.125),
    }),
  ).map(([of, rest]) => ({ ...of, ...rest }));
});

Deno.test("billing: usage of any reply is stored and reported whole, with the dollars of its bill or none", async () => {
  const upstream = { ...UPSTREAM, profile: (model: string) => chooseProfile({ model }) };
  const upstreams = { chat: upstream, responses: upstream, messages: upstream };
  let [priced, unpriced] = [0, 0];
  await fc.assert(
    fc.asyncProperty(bill, async (made) => {
      const store = memoryStore();
      const { fetch, close } = gatewayed(() => replyOf(made), { upstreams, store });
      const { protocol, stream } = made;
      const words = { role: "user", content: "Go." };
      const request = {
        ...{ model: MODELS[protocol], stream },
        ...(protocol === "responses" ? { input: [words] } : { messages: [words] }),
        ...(protocol === "messages" && { max_tokens: 9_000, cache_control: { type: "ephemeral" } }),
        ...(protocol === "chat" && stream && { stream_options: { include_usage: true } }),
      };
      const headers = { "anthropic-version": "2023-06-01" };
      await (await fetch(post(request, headers, PATHS[protocol]))).text();
      await close();
      const later = gatewayed(() => new Response(), { upstreams, store });
      const found = await Array.fromAsync(later.sessions.calls({ limit: 10 }));
      const { all } = await later.sessions.spend({ by: "model" });
      await later.close();
      const [call, ...others] = found.flatMap(({ calls }) => calls);
      assert(call && others.length === 0);
      const total = totalOf(made);
      assertEquals(
        [call.promptTokens, call.cachedTokens, call.writtenTokens, call.outputTokens],
        [promptOf(total), total.cached, total.short + total.hour, total.output],
      );
      assertEquals([call.tier, call.region, call.reportedUsd], [
        made.tier ?? null,
        made.region ?? null,
        made.usd ?? null,
      ]);
      assertEquals(call.serverTools, made.tools);
      assertEquals(
        call.innerCalls,
        made.inner.map(({ type, model, ...of }) => ({
          type,
          ...(model !== undefined && { model }),
          ...{ promptTokens: promptOf(of), cachedTokens: of.cached, outputTokens: of.output },
          ...{ cacheWriteTokens: of.short + of.hour, hourWriteTokens: of.hour },
        })),
      );
      const usd = dollars(made);
      assertEquals([call.usd === null, all.unpricedCalls], [usd === null, usd === null ? 1 : 0]);
      assertAlmostEquals(call.usd ?? 0, usd ?? 0, 1e-9);
      assertAlmostEquals(all.usd, usd ?? 0, 1e-9);
      const parts = Object.values(call.spent.usd ?? {}).reduce((sum, part) => sum + part, 0);
      assertAlmostEquals(parts, usd ?? 0, 1e-9);
      const usage = await readByAgent(made);
      assert(usage);
      const rates = {
        profile: chooseProfile({ model: MODELS[protocol] }),
        price: listPrice(MODELS[protocol]),
      };
      assertEquals([
        usage.tier,
        usage.region,
        usage.reportedUsd,
        usage.serverTools ?? {},
        usage.innerCalls ?? [],
      ], [
        ...[made.tier, made.region, made.usd, made.tools],
        call.innerCalls,
      ]);
      assertAlmostEquals(callCost(usage, rates).usd ?? 0, usd ?? 0, 1e-9);
      // Nothing was evicted, so nothing is claimed.
      assertAlmostEquals(call.baseline?.usd ?? 0, usd ?? 0, 1e-9);
      assertAlmostEquals(call.baseline?.costUnits ?? 0, call.costUnits, 1e-6);
      if (usd === null) unpriced++;
      else priced++;
    }),
    { numRuns: cases(120) },
  );
  assert(priced > 20 && unpriced > 20);
});
