import { openPostgresStore } from "@tare/session/postgres";
import type { Store } from "../../../../packages/session/mod.ts";
import {
  assertSame,
  conversation,
  MANNERS,
  played,
  whole,
} from "../../../../packages/gateway/sessions/conversations_fixture_test.ts";
import { DIALECTS } from "../../../../packages/gateway/sessions/dialects_fixture_test.ts";
import { seeded } from "../../../seeded.ts";
import { SEED } from "../../../cases.ts";
import { startPostgres } from "../postgres.ts";
import { FEW, withDatabase } from "./store.ts";

const postgres = await startPostgres();

for (const dialect of DIALECTS) {
  for (const manner of [MANNERS[0]!, MANNERS[3]!]) {
    Deno.test(`gateway: alternating, killed gateways on one database send what one sends: ${dialect.name}, ${manner.name}`, () =>
      withDatabase(postgres, async (url) => {
        const requests = conversation(dialect, manner);
        const stores = await Promise.all([0, 1, 2].map(() => openPostgresStore(url, FEW)));
        try {
          const random = seeded(SEED);
          const which = requests.map(() => Math.floor(3 * random()));
          const actual = await played(requests, dialect, {
            store: (at): Store => stores[which[at]!]!,
            gatewayAt: (at) => ({ which: which[at]!, isRestarted: at % 5 === 4 }),
          });
          assertSame(actual, await whole(requests, dialect));
        } finally {
          await Promise.all(stores.map((store) => store.close()));
        }
      }));
  }
}
