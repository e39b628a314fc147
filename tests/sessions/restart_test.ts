import { assert, assertMatch } from "@std/assert";
import fc, { cases } from "../cases.ts";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../shared_memory.ts";
import { openStore } from "@tare/session/sqlite";
import {
  assertSame,
  conversation,
  MANNERS,
  type Played,
  played,
  whole,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import { DIALECTS } from "../../packages/gateway/sessions/dialects_fixture_test.ts";

for (const dialect of DIALECTS) {
  for (const [at, manner] of MANNERS.entries()) {
    const of = `${dialect.name}, ${manner.name}`;
    const requests = conversation(dialect, manner);
    let wholeRun: Promise<Played> | undefined;
    const expectedRun = () => wholeRun ??= whole(requests, dialect);

    Deno.test(`restart: gateways that are killed after each answer send the same as one that isn't: ${of}`, async () => {
      const expected = await expectedRun();
      assertMatch(expected.sent.join(), /\[elided: [^\]]*\bref [0-9a-f]{16}\]/);
      assert(expected.sent.length > requests.length + 8);
      assert(!expected.sent.join().includes("Cannot recall"));
      const store = memoryStore();
      const gatewayAt = () => ({ isRestarted: true });
      assertSame(await played(requests, dialect, { store: () => store, gatewayAt }), expected);
    });

    Deno.test(`restart: gateways that take turns on one store send the same as one: ${of}`, async () => {
      const expected = await expectedRun();
      const turns = fc.array(fc.record({ which: fc.nat(2), isRestarted: fc.boolean() }), {
        minLength: requests.length,
        maxLength: requests.length,
      });
      await fc.assert(
        fc.asyncProperty(turns, async (turns) => {
          const memory = sharedMemory();
          const stores = [0, 1, 2].map(() => memory.open().store);
          assertSame(
            await played(requests, dialect, {
              store: (at) => stores[turns[at]!.which]!,
              gatewayAt: (at) => turns[at]!,
            }),
            expected,
          );
        }),
        { numRuns: cases(1) },
      );
    });

    if (at >= 2) continue;
    Deno.test(`restart: a gateway that is restarted on a file for each request sends the same as one: ${of}`, async () => {
      const folder = await Deno.makeTempDir();
      let store: Store | undefined;
      try {
        const anew = async () => {
          await store?.close();
          return store = await openStore(`${folder}/tare.db`);
        };
        const gatewayAt = () => ({ isRestarted: true });
        assertSame(await played(requests, dialect, { store: anew, gatewayAt }), await expectedRun());
      } finally {
        await store?.close();
        await Deno.remove(folder, { recursive: true });
      }
    });
  }
}
