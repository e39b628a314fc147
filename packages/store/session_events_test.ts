import { assertEquals, assertThrows } from "@std/assert";
import { openStore } from "@tare/store";
import { withStore } from "./fixture_test.ts";

const delta = (text: string) => ({ type: "text_delta", text });

Deno.test("appendEvents() numbers the events of each session from 1, also after a restart", () =>
  withStore((store, path) => {
    assertEquals([store.lastEvent("a"), store.readEvents("a")], [0, []]);
    assertEquals(store.appendEvents("a", [delta("1"), delta("2")]), 2);
    assertEquals(store.appendEvents("b", [delta("other")]), 1);
    store.close();
    const later = openStore(path);
    assertEquals([later.lastEvent("a"), later.appendEvents("a", [delta("3")])], [2, 3]);
    assertEquals(
      later.readEvents("a"),
      ["1", "2", "3"].map((text, index) => ({ number: index + 1, event: delta(text) })),
    );
    later.close();
  }));

Deno.test("readEvents() gives those after a number, of some types, at most so many", () =>
  withStore((store) => {
    store.appendEvents("a", [delta("1"), { type: "step_end" }, delta("3"), { type: "turn_end" }]);
    const numbers = (options: Parameters<typeof store.readEvents>[1]) =>
      store.readEvents("a", options).map(({ number }) => number);
    assertEquals(numbers({ after: 2 }), [3, 4]);
    assertEquals(numbers({ after: 9 }), []);
    assertEquals(numbers({ limit: 2 }), [1, 2]);
    assertEquals(numbers({ types: ["turn_end", "step_end", "'none"] }), [2, 4]);
    assertEquals(numbers({ types: [] }), []);
    assertEquals(numbers({ after: 1, types: ["text_delta"], limit: 1 }), [3]);
  }));

Deno.test("appendEvents() saves state with the events, or neither", () =>
  withStore((store) => {
    assertEquals(store.appendEvents("a", [delta("1")], { state: { ledger: { calls: 1 }, edits: [] } }), 1);
    assertThrows(() => store.appendEvents("a", [delta("2")], { state: { ledger: undefined } }), TypeError);
    const circular: Record<string, unknown> = { type: "loop" };
    circular.self = circular;
    assertThrows(
      () => store.appendEvents("a", [delta("2"), circular as { type: string }], { state: { ledger: 2 } }),
      TypeError,
    );
    assertEquals([store.lastEvent("a"), store.readState("a", "ledger"), store.readState("a", "edits")], [
      1,
      { calls: 1 },
      [],
    ]);
  }));

Deno.test("saveState() replaces the values it names and leaves the others", () =>
  withStore((store) => {
    store.saveState("a", { x: 1, y: [1] });
    store.saveState("a", { x: null });
    assertEquals(["x", "y", "z"].map((name) => store.readState("a", name)), [null, [1], undefined]);
    assertEquals([store.readState("b", "x"), store.lastEvent("a")], [undefined, 0]);
  }));

Deno.test("appendEvents(), readEvents(), lastEvent() and state refuse a session that isn't there", () =>
  withStore((store) => {
    for (
      const use of [
        () => store.appendEvents("c", []),
        () => store.readEvents("c"),
        () => store.lastEvent("c"),
        () => store.saveState("c", {}),
        () => store.readState("c", "x"),
      ]
    ) assertThrows(use, Error, 'Cannot find session "c": there is no such session');
  }));
