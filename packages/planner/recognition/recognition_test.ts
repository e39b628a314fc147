import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import {
  type HistoryItem,
  type KnownConversation,
  Recognition,
  type RequestHistory,
} from "@tare/planner/internal";

type Known = KnownConversation & { readonly id: string };

const ROLES = { S: "instruction", u: "user", a: "reply", r: "result", t: "thought" } as const;

/**
 * Returns a history of items such as `u1`; text follows a colon: `r1:cleared` is another result of the call
 * of `r1`.
 */
function history(words: string, more: Partial<RequestHistory> = {}): RequestHistory {
  const all = words.split(" ").filter((word) => word !== "");
  const texts = all.map((word) => (word.split(":")[1] ?? word).replaceAll("|", "\n"));
  return {
    scope: "s",
    items: all.map((word): HistoryItem => {
      const role = ROLES[word[0] as keyof typeof ROLES];
      return { exact: word, role, ...(role === "result" && { shape: word.split(":")[0] }) };
    }),
    textsOf: (at) => [texts[at]!],
    ...more,
  };
}

function recognized(known: Readonly<Record<string, string>>, request: RequestHistory, facts: object = {}) {
  const recognition = new Recognition<Known>();
  for (const [at, [id, words]] of Object.entries(known).entries()) {
    const { scope, client } = request;
    const one: Known = { id, facts: { scope, client, turns: 1, isAmidTurn: false, ...facts } };
    recognition.follow(one, history(words), at);
  }
  const found = recognition.recognize(request);
  if (found.type === "new") return "new";
  return [found.type, found.known.id, found.at, ...(found.type === "continue" ? [found.how] : [])].join(" ");
}

const ONE = "S u1 a1 r1 a2 r2 a3 r3";
const summary = { pieces: ["a summary"], isRequested: false };

for (
  const [what, known, request, expected, facts] of [
    ["more of the same", { one: ONE }, `${ONE} a4 r4`, "continue one 8 grown"],
    ["the same again", { one: ONE }, ONE, "continue one 8 grown"],
    ["without an item at the end", { one: `${ONE} uT` }, `${ONE} a4 r4 uU`, "continue one 8 transient"],
    ["without text at the end", { one: "S u1 a1 r1:x|T" }, "S u1 a1 r1:x a2 r2", "continue one 3 transient"],
    ["without text in the first message", { one: "S u1:x|T" }, "S u1:x a1 r1", "continue one 1 transient"],
    ["without a thought", { one: `${ONE} t` }, `${ONE} a4 r4`, "continue one 8 transient"],
    ["cleared results", { one: ONE }, "S u1 a1 r1:- a2 r2:- a3 r3 a4", "continue one 3 cleared"],
    ["one different result", { one: ONE }, "S u1 a1 r1:- a2 r2 a3 r3 a4", "fork one 3"],
    ["an interrupted turn", { one: ONE }, "S u1 a1 r1 a2 r2 u2", "continue one 6 back", { isAmidTurn: true }],
    ["another branch", { one: ONE }, "S u1 a1 r1 a2 r2 u2", "fork one 6"],
    ["an opening", { one: ONE }, "S u1", "new"],
    ["its end after another start", { one: ONE }, "S uX a2 r2 a3 r3 a4 r4", "continue one 1 compacted"],
    ["the newest of equal ones", { one: ONE, other: ONE }, `${ONE} a4`, "continue other 8 grown"],
    [
      "the longer of two",
      { one: "S u1 a1 u2 a2", other: "S u1 a1" },
      "S u1 a1 u2 a2 u3",
      "continue one 5 grown",
    ],
    ["another reply", { one: "S u1 a1 u2 a2 u3" }, "S u1 aX u2 a2 u3", "new"],
  ] as const
) {
  Deno.test(`Recognition.recognize(): ${what}: ${expected}`, () => {
    assertEquals(recognized(known, history(request), facts), expected);
  });
}

Deno.test("Recognition.recognize() continues a conversation whose summary is quoted with a new history", () => {
  const request = { ...history("S u1"), textsOf: () => ["Continued from a summary."] };
  assertEquals(recognized({ one: "S u0 a1 u2" }, request, { summary }), "continue one 1 compacted");
  const requested = { summary: { pieces: [], isRequested: true } };
  assertEquals(
    recognized({ one: "S u0 a1 u2" }, history("S u1", { isKeyed: true }), requested),
    "continue one 1 compacted",
  );
  assertEquals(recognized({ one: "S u0 a1 u2" }, history("S u1"), requested), "new");
});

for (
  const [what, begun, unbegun, request, expected, facts] of [
    ["forks what shares more", ONE, "S u1", "S u1 a1 r1 u2", "fork 4"],
    ["continues after a cut stream", "S u1 t", "S u1", "S u1 a1 r1", "continue 2"],
    ["continues after an opaque summary", ONE, "S uX aX", "S u2", "continue 1", {
      summary: { pieces: [], isRequested: true },
    }],
  ] as const
) {
  Deno.test(`Recognition.recognize() ${what} despite a conversation without a turn`, () => {
    const recognition = new Recognition<Known>();
    const conversation = (id: string, turns?: number): Known => {
      return { id, facts: { scope: "s", turns, isAmidTurn: false, ...turns && facts } };
    };
    recognition.follow(conversation("begun", 1), history(begun), 0);
    recognition.follow(conversation("unbegun"), history(unbegun), 1);
    const found = recognition.recognize(history(request, { isKeyed: facts !== undefined }));
    assert(found.type !== "new");
    assertEquals([found.known.id, `${found.type} ${found.at}`], ["begun", expected]);
  });
}

Deno.test("Recognition.recognize() forks a branch that shares a reply, also if another one quotes its summary", () => {
  const recognition = new Recognition<Known>();
  const begunWith = (isAnswered: boolean) => ({ pieces: ["uS"], isAnswered });
  const facts = { scope: "s", turns: 1, isAmidTurn: false };
  const one: Known = { id: "one", facts: { ...facts, begunWith: begunWith(true) } };
  recognition.follow(one, history("S uS a1 u2 a2"), 0);
  recognition.follow(
    { id: "other", facts: { ...facts, begunWith: begunWith(false) } },
    history("S uS u3"),
    1,
  );
  assertEquals(recognition.recognize(history("S uS a1 u4")), { type: "fork", known: one, at: 3 });
});

Deno.test("Recognition.recognize() forks a whole conversation of another scope of the client", () => {
  const recognition = new Recognition<Known>();
  const facts = { scope: "other", client: "c", turns: 1, isAmidTurn: false };
  const known = { id: "one", facts };
  recognition.follow(known, history(ONE), 0);
  const found = recognition.recognize(history(`${ONE} a4`, { client: "c" }));
  assertEquals([found.type, recognition.recognize(history(`${ONE} a4`)).type], ["fork", "new"]);
});

Deno.test("Recognition.recognize() follows the calls of the newest reply, and requests in progress", () => {
  assertEquals(
    recognized({ one: "S u1" }, history("S u1 a1 r1"), { replied: ["r1"] }),
    "continue one 2 grown",
  );
  assertEquals(recognized({ one: "S u1" }, history("S u1 a1 r1"), { replied: ["r2"] }), "new");
  assertEquals(recognized({ one: "S u1" }, history("S u1 a1 r1"), { isBusy: true }), "new");
});

Deno.test("Recognition.about() returns the conversation of a request, also after a restart", () => {
  const recognition = new Recognition<Known>();
  const known = (id: string, opening: string): Known => ({
    id,
    facts: { scope: "s", turns: 1, isAmidTurn: false, opening },
  });
  const [one, other] = [known("one", "Find it."), known("other", "Lose it.")];
  recognition.follow(one, history(ONE), 0);
  recognition.follow(other, history("S uO aO rO:x|T"), 1);
  const restored = new Recognition<Known>();
  for (const known of [one, other]) restored.restore(known, recognition.stored(known), 0);
  for (const index of [recognition, restored]) {
    const about = (words: string, text = "") => {
      const request = history(words);
      return index.about({ ...request, textsOf: (at) => text ? [text] : request.textsOf(at) })?.known;
    };
    assertStrictEquals(about(`${ONE} uSum`), one);
    assertStrictEquals(about("SX u1 a1 r1 uTitle"), one);
    assertStrictEquals(about("SX uQ", "Title: Lose it."), other);
    assertStrictEquals(about("SX uQ", "Title: Keep it."), undefined);
    assertEquals(index.recognize(history("S uO aO rO:x a2 r2")).type, "continue");
  }
  recognition.forget(one);
  assertEquals(recognition.recognize(history(`${ONE} a4`)).type, "new");
});
