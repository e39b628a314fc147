/**
 * What every store must do with conversations, as tests that run on any of them. Holds no tests of its own.
 *
 * @module
 */
import { randomBytes } from "node:crypto";
import { assertEquals, assertRejects } from "@std/assert";
import { archiveRef } from "@tare/prune";
import type { ConversationStore, ConversationText, Store } from "@tare/conversation";
import type { Place } from "./store_suite_fixture_test.ts";

async function textOf(content: string): Promise<ConversationText> {
  return { ref: await archiveRef(content), content };
}

const found = async (kept: ConversationStore, names: readonly string[], limit?: number) =>
  (await kept.find(names, limit)).map(({ id, version }) => [id, version]);

/** Tests that the stores which `place` opens keep conversations as the port says. */
export function testConversations(name: string, place: Place): void {
  const test = (
    what: string,
    use: (
      kept: ConversationStore,
      again: () => Promise<ConversationStore>,
      tick: (ms: number) => void,
    ) => Promise<void>,
  ) =>
    Deno.test(`${name}.conversations: ${what}`, () =>
      place(async (open) => {
        let nowMs = 1_000;
        const now = () => nowMs;
        let store: Store = await open({ now });
        const again = async () => {
          await store.close();
          store = await open({ now });
          return store.conversations!;
        };
        await use(store.conversations!, again, (ms) => nowMs += ms);
        await store.close();
      }));

  test("save() keeps a value in place of the one before, counts, and survives", async (kept, again) => {
    assertEquals(await kept.load("a"), undefined);
    assertEquals(await kept.save({ id: "a", names: ["n"], value: { of: ["\ud83d", 1.5, null] } }), 1);
    assertEquals(await kept.save({ id: "a", names: ["n"], value: 2 }), 2);
    assertEquals(await kept.save({ id: "b", names: [], value: [] }), 1);
    const later = await again();
    assertEquals(await later.load("a"), { id: "a", version: 2, value: 2 });
    assertEquals(await later.save({ id: "a", names: [], value: "é" }), 3);
    assertEquals(await later.load("a"), { id: "a", version: 3, value: "é" });
  });

  test(
    "find() gives what has a name, by the order of the names, and of one name what was saved last in front",
    async (kept, again) => {
      await kept.save({ id: "a", names: ["x", "y"], value: 1 });
      await kept.save({ id: "b", names: ["y", "z"], value: 1 });
      await kept.save({ id: "c", names: ["z"], value: 1 });
      assertEquals(await found(kept, ["y"]), [["b", 1], ["a", 1]]);
      assertEquals(await found(kept, ["x", "y", "z"]), [["a", 1], ["b", 1], ["c", 1]]);
      assertEquals(await found(kept, ["z", "y", "x"]), [["c", 1], ["b", 1], ["a", 1]]);
      await kept.save({ id: "a", names: ["y", "new"], value: 2 });
      const later = await again();
      assertEquals(await found(later, ["x"]), []);
      assertEquals(await found(later, []), []);
      assertEquals(await found(later, ["y", "x", "new"]), [["a", 2], ["b", 1]]);
      assertEquals(await found(later, ["z", "new"], 2), [["c", 1], ["b", 1]]);
      const many = Array.from({ length: 70 }, (_, at) => `other ${at}`);
      assertEquals(await found(later, [...many, "z"]), [["c", 1], ["b", 1]]);
    },
  );

  test(
    "texts() gives those that a conversation got, and a fork those that its parent had",
    async (kept, again) => {
      const [one, other, own] = await Promise.all(["one".repeat(1_000), "\ud83d other", "own"].map(textOf));
      const refs = [one!.ref, other!.ref, own!.ref, "0".repeat(16)];
      await kept.save({ id: "a", names: [], value: 1, texts: [one!] });
      await kept.save({ id: "a", names: [], value: 2, texts: [one!, other!] });
      await kept.save({ id: "fork", names: [], value: 1, texts: [own!], parent: "a" });
      await kept.save({ id: "other", names: [], value: 1, texts: [own!], parent: "nobody" });
      await kept.save({ id: "a", names: [], value: 3 });
      const later = await again();
      const contents = async (id: string) => [...(await later.texts(id, refs)).values()].sort();
      assertEquals(await contents("a"), [one!.content, other!.content].sort());
      assertEquals(await contents("fork"), [one!.content, other!.content, own!.content].sort());
      assertEquals(await contents("other"), [own!.content]);
      assertEquals(await contents("nobody"), []);
      assertEquals((await later.texts("a", [other!.ref])).get(other!.ref), other!.content);
    },
  );

  test("save() writes all or nothing", async (kept) => {
    const text = await textOf("what stands there");
    await kept.save({ id: "a", names: ["n"], value: 1, texts: [text] });
    const wrong = { ref: text.ref, content: "something else" };
    await assertRejects(
      () => kept.save({ id: "a", names: ["m"], value: 2, texts: [wrong] }),
      Error,
      "other content",
    );
    await assertRejects(
      () => kept.save({ id: "a", names: ["m"], value: () => {} }),
      TypeError,
      "it is no JSON",
    );
    assertEquals(await kept.load("a"), { id: "a", version: 1, value: 1 });
    assertEquals([await found(kept, ["m"]), await found(kept, ["n"])], [[], [["a", 1]]]);
  });

  test(
    "expire() forgets what was saved long ago, and the oldest beyond so many bytes",
    async (kept, again, tick) => {
      const texts = await Promise.all(
        ["a", "b", "c"].map((name) => textOf(randomBytes(15_000).toString("base64") + name)),
      );
      for (const [at, id] of ["a", "b", "c"].entries()) {
        await kept.save({ id, names: ["n"], value: id, texts: [texts[at]!] });
        tick(10);
      }
      const ids = async () => (await found(kept, ["n"])).map(([id]) => id);
      assertEquals(await kept.expire({ beforeMs: 1_000, maxBytes: 1e9 }), 0);
      assertEquals([await kept.expire({ beforeMs: 1_001, maxBytes: 1e9 }), await ids()], [1, ["c", "b"]]);
      assertEquals((await kept.texts("a", [texts[0]!.ref])).size, 0);
      // What is saved again counts as new, and comes last again.
      await kept.save({ id: "b", names: ["n"], value: 1 });
      assertEquals([await kept.expire({ beforeMs: 0, maxBytes: 25_000 }), await ids()], [1, ["b"]]);
      assertEquals((await kept.texts("b", [texts[1]!.ref])).size, 1);
      assertEquals(await kept.save({ id: "a", names: [], value: 1 }), 1);
      kept = await again();
      assertEquals([await kept.expire({ beforeMs: 1e9, maxBytes: 1e9 }), await ids()], [2, []]);
    },
  );
}
