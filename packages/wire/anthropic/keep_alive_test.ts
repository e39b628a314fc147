import { assertEquals } from "@std/assert";
import { MESSAGES_PROTOCOL, MessageWriter } from "@tare/wire/internal";
import { decode, encode, requestOf } from "../request_fixture_test.ts";

const { readAnswerBlocks, write, readUsage, mustReply } = MESSAGES_PROTOCOL.keepAlive!;

const HOUR = '"cache_control":{"type":"ephemeral","ttl":"1h"}';
const SHORT = '"cache_control": {"type":"ephemeral"}';

const BODY = '{ "model":"m", "max_tokens":32000.0,"stream" : true,"temperature":1.0,' +
  `"system":[{"type":"text","text":"S",${HOUR}},{"type":"text","text":"T",${SHORT}}],` +
  `"tools":[{"name":"f","input_schema":{"type":"object","x":1.0}, ${SHORT}}],"messages":[` +
  `{"role":"user","content":[{${SHORT} , "type":"text","text":"A \\u0041, \\"cache_control\\":"}]},` +
  '{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"cache_control":{"n":1.0}}}]},' +
  `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"B",${SHORT}}]}` +
  `,{"type":"text","text":"And?",${SHORT},"unknown":1e3}]}] , "metadata":{"n":12345678901234567890}}`;

const reply = (content: string, stop = "end_turn") =>
  encode(`{"id":"msg","content":[${content}],"stop_reason":"${stop}","usage":{"output_tokens":1.0}}`);
const SAID = '{"type":"text","text":"So.","n":1.0}';
const THOUGHT = '{"type":"thinking","thinking":"Hm.","signature":"s"}';
const answerOf = (content: string, stop?: string, body: string = BODY) =>
  readAnswerBlocks(encode(body), reply(content, stop), false);

Deno.test("pingBody() repeats the request byte for byte except for the reply settings", () => {
  const request = BODY.replace("32000.0", "0").replace("true", "false");
  assertEquals(decode(write(encode(BODY))), request);
  // Without stream settings.
  assertEquals(
    decode(write(encode('{"model":"m","messages":[]}'))),
    '{"max_tokens":0,"model":"m","messages":[]}',
  );
});

Deno.test("pingBody() appends the answer with an hour's breakpoint and removes shorter ones", () => {
  const upgraded = (answer: readonly string[], behind: string) =>
    BODY.replace("32000.0", "0").replace("true", "false")
      .replace(`"text":"T",${SHORT}`, '"text":"T"').replace(`, ${SHORT}}],"messages"`, '}],"messages"')
      .replace(`{${SHORT} , "type"`, '{ "type"').replace(`"text":"B",${SHORT}`, '"text":"B"')
      .replace(`"And?",${SHORT}`, '"And?"')
      .replace("}] , ", `},{"role":"assistant","content":[${answer.join(",")}]},${behind}] , `);
  const answer = answerOf(`${THOUGHT},${SAID}`)!;
  assertEquals(answer, [THOUGHT, SAID]);
  assertEquals(
    decode(write(encode(BODY), answer)),
    upgraded([THOUGHT, SAID.replace("{", `{${HOUR},`)], '{"role":"user","content":"."}'),
  );
  // Each call gets a result; thinking has no breakpoint.
  const call = '{"type":"tool_use","id":"d","name":"f","input":{"n":1.0}}';
  const called = answerOf(`${call},${call.replace('"d"', '"e"')},${THOUGHT}`, "tool_use")!;
  const results = ["d", "e"].map((id) => ({ type: "tool_result", tool_use_id: id, content: "." }));
  assertEquals(
    decode(write(encode(BODY), called)),
    upgraded(
      [call, call.replace('"d"', '"e"').replace("{", `{${HOUR},`), THOUGHT],
      JSON.stringify({ role: "user", content: results }),
    ),
  );
});

const stream = (...events: readonly string[]) =>
  encode(events.map((data) => `event: ${JSON.parse(data).type}\ndata: ${data}\n\n`).join(""));
const begun = (index: number, block: string) =>
  `{"type":"content_block_start","index":${index},"content_block":${block}}`;
const delta = (index: number, delta: string) =>
  `{"type":"content_block_delta","index":${index},"delta":{"type":${delta}}}`;
const END = [
  '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}',
  '{"type":"message_stop"}',
];

Deno.test("readAnswerBlocks() restores a streamed reply exactly, with its numbers and unknown fields", () => {
  const events = [
    '{"type":"message_start","message":{}}',
    begun(0, '{"type":"thinking","thinking":"","signature":""}'),
    delta(0, '"thinking_delta","thinking":"Hm"'),
    '{"type":"ping"}',
    delta(0, '"thinking_delta","thinking":", \\u00e9"'),
    delta(0, '"signature_delta","signature":"sig="'),
    '{"type":"content_block_stop","index":0}',
    begun(1, '{"type":"text","text":""}'),
    delta(1, '"text_delta","text":"So"'),
    delta(1, '"citations_delta","citation":{"from":1.0}'),
    delta(1, '"text_delta","text":" it is."'),
    begun(2, '{"type":"tool_use","id":"d","name":"f","input":{}}'),
    delta(2, '"input_json_delta","partial_json":"{\\"n\\": 1"'),
    delta(2, '"input_json_delta","partial_json":".0}"'),
    begun(3, '{"type":"tool_use","id":"e","name":"f","input":{}}'),
    begun(4, '{"type":"odd_result","x":1.0}'),
  ];
  const read = (...events: readonly string[]) => readAnswerBlocks(encode(BODY), stream(...events), true);
  assertEquals(read(...events, ...END), [
    '{"type":"thinking","thinking":"Hm, é","signature":"sig="}',
    '{"citations":[{"from":1.0}],"type":"text","text":"So it is."}',
    '{"type":"tool_use","id":"d","name":"f","input":{"n": 1.0}}',
    '{"type":"tool_use","id":"e","name":"f","input":{}}',
    '{"type":"odd_result","x":1.0}',
  ]);
  // Incomplete, unknown or failed streams.
  const [start, first] = [events[0]!, begun(0, '{"type":"text","text":"So."}')];
  assertEquals(read(start, first, ...END), ['{"type":"text","text":"So."}']);
  for (
    const odd of [
      [start, first, END[0]!],
      [start, first, delta(0, '"odd_delta","x":1'), ...END],
      [start, delta(0, '"text_delta","text":"x"'), ...END],
      [
        start,
        begun(0, '{"type":"tool_use","id":"d","input":{}}'),
        delta(0, '"input_json_delta","partial_json":"{"'),
        ...END,
      ],
      [start, first, '{"type":"error","error":{}}', ...END],
      [start, ...END],
    ]
  ) assertEquals(read(...odd), undefined);
});

Deno.test("readAnswerBlocks() returns nothing for an unfinished reply or a cached prompt beyond the lookback", () => {
  assertEquals(answerOf(SAID), [SAID]);
  for (const stop of ["max_tokens", "pause_turn", "refusal"]) assertEquals(answerOf(SAID, stop), undefined);
  for (const content of ["", THOUGHT, '{"type":"text","text":" "}', "1"]) {
    assertEquals(answerOf(content), undefined);
  }
  assertEquals(readAnswerBlocks(encode(BODY), encode("no JSON"), false), undefined);
  const asking = (messages: string, more = "") => `{"model":"m"${more},"messages":[${messages}]}`;
  const user = (content: string) => `{"role":"user","content":${content}}`;
  const marked = `{"type":"text","text":"A",${SHORT}}`;
  const texts = (count: number) =>
    Array.from({ length: count }, () => '{"type":"text","text":"A"}').join(",");
  const cases: [string, boolean][] = [
    [asking(user(`[${marked}]`)), true],
    [asking(user('"Plain."')), false],
    [asking(user('"Plain."'), `,${SHORT}`), true],
    [asking(`${user(`[${marked}]`)},{"role":"assistant","content":"And"}`), false],
    [asking(user(`[${marked},${texts(18)}]`)), true],
    [asking(user(`[${marked},${texts(19)}]`)), false],
    [asking(`${user(`[${marked}]`)},${user(`[${texts(18)}]`)}`), true],
    [asking(user(`[${texts(1)}]`), `,"system":[${marked}]`), false],
    ['{"model":"m"}', false],
  ];
  for (const [body, isThere] of cases) {
    assertEquals([body, answerOf(SAID, "end_turn", body) !== undefined], [body, isThere]);
  }
});

Deno.test("readAnswerBlocks() reads replies of MessageWriter, whole and streamed", () => {
  const message = {
    role: "assistant",
    content: "So.",
    tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"a":1}' } }],
  } as const;
  const usage = { promptTokens: 10, cachedTokens: 8, outputTokens: 2 };
  const written = { id: "msg", model: "m", message, finishReason: "tool_calls", usage } as const;
  const whole = encode(new MessageWriter(written).body());
  const streamed = stream(...new MessageWriter(written).events().map((event) => JSON.stringify(event)));
  const blocks = readAnswerBlocks(encode(BODY), whole, false)!.map((block) => JSON.parse(block));
  assertEquals(blocks, new MessageWriter(written).body().content);
  assertEquals(readAnswerBlocks(encode(BODY), streamed, true)?.map((block) => JSON.parse(block)), blocks);
  assertEquals(readUsage(whole)?.promptTokens, 10);
});

Deno.test("MESSAGES_PROTOCOL.keepAlive: a thinking budget requires a reply", () => {
  const asks = (more: object) =>
    mustReply(requestOf({ model: "m", messages: [], ...more }, MESSAGES_PROTOCOL));
  assertEquals(
    [{}, { thinking: { type: "adaptive" } }, { thinking: { type: "enabled", budget_tokens: 9 } }].map(asks),
    [false, false, true],
  );
});
