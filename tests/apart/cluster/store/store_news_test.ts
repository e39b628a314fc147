import { assertEquals } from "@std/assert";
import { openPostgresStore } from "@tare/session/postgres";
import { events, held } from "../../../../packages/session/store/openings_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { startPostgres } from "../postgres.ts";
import { FEW, withDatabase } from "./store.ts";

const postgres = await startPostgres();

Deno.test("openPostgresStore() reads watched events together under load, and reports the same", async () => {
  await withDatabase(postgres, async (url) => {
    await using stack = new AsyncDisposableStack();
    const one = await openPostgresStore(url, FEW);
    stack.defer(() => one.close());
    const two = await openPostgresStore(url, FEW);
    stack.defer(() => two.close());
    await one.commit([sessionRecord("a"), sessionRecord("b")]);
    const written = { a: 0, b: 0 };
    /** Texts by event number, and the most events reported at once. */
    const seen = { a: new Map<number, unknown>(), b: new Map<number, unknown>() };
    const most = { a: 0, b: 0 };
    const last = { a: 0, b: 0 };
    let changed = Promise.withResolvers<void>();
    for (const id of ["a", "b"] as const) {
      const end = two.shared.watch(id, (sighting) => {
        const { events = [], lastEvent = 0 } = sighting ?? {};
        for (const { number, event } of events) seen[id].set(number, event["text"]);
        most[id] = Math.max(most[id], events.length);
        last[id] = Math.max(last[id], lastEvent);
        changed.resolve();
      });
      stack.defer(end);
      await held(one, id);
    }
    // First each commit is reported by itself, then those of a moment together.
    while (most.a < 2 || most.b < 2) {
      await Promise.all(
        (["a", "b"] as const).map((id) => one.commit([events(id, written[id], `${++written[id]}`)])),
      );
    }
    for (; last.a < written.a || last.b < written.b; await changed.promise) changed = Promise.withResolvers();
    for (const id of ["a", "b"] as const) {
      const stored = await one.readEvents(id);
      assertEquals(stored.length, written[id]);
      const received = stored.filter(({ number }) => seen[id].has(number));
      assertEquals(
        received.map(({ number }) => seen[id].get(number)),
        received.map(({ event }) => event["text"]),
      );
      assertEquals(received.length > written[id] / 2, true);
    }
  });
});
