import { assertEquals, assertStrictEquals } from "@std/assert";
import fc from "../../tests/cases.ts";
import {
  CHAT_PROTOCOL,
  readJsonAt,
  readRequest,
  readWireBody,
  type RequestReaders,
} from "@tare/wire/internal";
import { ListCache } from "./request_cache.ts";

const encode = (text: string) => new TextEncoder().encode(text);

function counting(lists?: ListCache) {
  const counted = { items: 0 };
  const readers: RequestReaders = {
    lists,
    items: {
      read(bytes, { start, end, read }) {
        counted.items++;
        const text = new TextDecoder().decode(bytes.subarray(start, end));
        return { key: text, value: read(readJsonAt(bytes, { start, end })) };
      },
    },
    tools: { read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) }) },
  };
  return { counted, readers };
}

function requestOf(text: string, readers: RequestReaders) {
  const body = readWireBody(encode(text), { protocol: CHAT_PROTOCOL, lists: readers.lists });
  return readRequest(body, CHAT_PROTOCOL, readers);
}

const bodyOf = (messages: readonly unknown[]) => JSON.stringify({ model: "m", messages, stream: true });
const message = (content: string) => ({ role: "user", content });

Deno.test("ListCache returns the items that a request shares with an earlier one", () => {
  const { counted, readers } = counting(new ListCache({ maxBytes: 100_000 }));
  const texts = ["a", "b", "c", "d"].map(message);
  const first = requestOf(bodyOf(texts.slice(0, 2)), readers);
  const second = requestOf(bodyOf(texts.slice(0, 3)), readers);
  assertStrictEquals(second.items[1]?.parts, first.items[1]?.parts);
  assertEquals(counted.items, 3);
  requestOf(bodyOf(texts.slice(0, 3)), readers);
  requestOf(bodyOf([...texts.slice(0, 3), message("Sum it up.")]), readers);
  assertEquals(counted.items, 4);
  requestOf(bodyOf(texts), readers);
  assertEquals(counted.items, 5);
});

Deno.test("ListCache distinguishes lists with another byte or protocol", () => {
  const lists = new ListCache({ maxBytes: 100_000 });
  const { counted, readers } = counting(lists);
  requestOf(bodyOf([message("a"), message("b")]), readers);
  requestOf(bodyOf([message("A"), message("b"), message("c")]), readers);
  assertEquals(counted.items, 5);
  const bytes = encode(bodyOf([message("a"), message("b")]));
  const start = bytes.indexOf("[".charCodeAt(0));
  assertEquals(lists.find(bytes, start, "chat")?.items.length, 2);
  assertEquals(lists.find(bytes, start, "messages"), undefined);
  assertEquals(lists.find(bytes.subarray(0, -20), start, "chat"), undefined);
});

Deno.test("ListCache distinguishes lists with the same length and end", () => {
  const { counted, readers } = counting(new ListCache({ maxBytes: 100_000 }));
  const end = message("the same end ".repeat(10));
  const sessions = ["a", "b", "c"].map((name) => [message(name), end]);
  const first = sessions.map((texts) => requestOf(bodyOf(texts), readers));
  counted.items = 0;
  for (const [at, texts] of sessions.entries()) {
    const again = requestOf(bodyOf([...texts, message("more")]), readers);
    assertStrictEquals(again.items[0]?.parts, first[at]?.items[0]?.parts);
  }
  assertEquals(counted.items, 3);
});

Deno.test("ListCache finds the longest list of any length among many conversations", () => {
  const lists = new ListCache({ maxBytes: 10_000_000 });
  const { counted, readers } = counting(lists);
  const instructions = message("the same instructions ".repeat(300));
  const texts = (
    name: string,
  ) => [instructions, ...Array.from({ length: 40 }, (_, at) => message(name.repeat(1 + at ** 2)))];
  const conversations = ["a", "b", "c"].map(texts);
  for (const messages of conversations) requestOf(bodyOf(messages.slice(0, 1)), readers);
  for (let length = 2; length <= 41; length++) {
    for (const messages of conversations) {
      counted.items = 0;
      requestOf(bodyOf(messages.slice(0, length)), readers);
      assertEquals(counted.items, 1);
    }
  }
  // A list that is cut back before both cached lists begins with neither.
  counted.items = 0;
  requestOf(bodyOf([...conversations[0]!.slice(0, 40), message("else")]), readers);
  assertEquals(counted.items, 1);
  requestOf(bodyOf([...conversations[0]!.slice(0, 20), message("else")]), readers);
  assertEquals(counted.items, 22);
});

Deno.test("ListCache evicts the least recently used lists", () => {
  const { counted, readers } = counting(new ListCache({ maxBytes: 3 * 230 }));
  const bodies = ["a", "b", "c", "d"].map((letter) => bodyOf([message(letter.repeat(100))]));
  for (const body of bodies) requestOf(body, readers);
  counted.items = 0;
  for (const body of bodies.toReversed()) requestOf(body, readers);
  assertEquals(counted.items, 1);
});

Deno.test("ListCache doesn't change what is read, for any bytes", () => {
  const text = fc.oneof(fc.constantFrom("", "a", '"', "\\", "}]", "é\n"), fc.string());
  const bodies = fc.array(fc.array(text, { maxLength: 5 }), { maxLength: 4 });
  const damage = fc.option(fc.tuple(fc.nat(80), fc.constantFrom("]", "}", ",", '"', "{", " ", "")));
  fc.assert(fc.property(bodies, fc.constantFrom("", " "), damage, (steps, blank, damaged) => {
    const { readers } = counting(new ListCache({ maxBytes: 100_000 }));
    const messages: unknown[] = [];
    for (const step of steps) {
      messages.push(...step.map(message));
      const list = `[${blank}${
        messages.map((one) => JSON.stringify(one)).join(`${blank},${blank}`)
      }${blank}]`;
      const body = `{"model":"m",${blank}"messages":${list},"tools":[]}`;
      const sent = damaged ? body.slice(0, -damaged[0]) + damaged[1] + body.slice(-damaged[0]) : body;
      for (const each of [body, sent]) {
        assertEquals(outcome(each, readers), outcome(each, counting().readers), each);
      }
    }
  }));
});

function outcome(text: string, readers: RequestReaders) {
  try {
    const { known: _, ...read } = requestOf(text, readers);
    return read;
  } catch (error) {
    return String(error);
  }
}
