import { assertMatch } from "@std/assert";
import { sleepers } from "./break_out.ts";
import { resultsOf, withServer } from "./robbed_server.ts";
import { BUBBLEWRAP, needs } from "../needs.ts";

const anySeconds = () => 300_000 + crypto.getRandomValues(new Uint16Array(1))[0]!;

for (const sandbox of ["on", "off"]) {
  Deno.test(
    needs(
      BUBBLEWRAP,
      `background: a turn's background processes continue after it, and end with the server, sandbox ${sandbox}`,
    ),
    async () => {
      const seconds = anySeconds();
      const command = `(setsid sleep ${seconds} &) ; exec sleep ${seconds}`;
      await withServer({
        flags: ["--sandbox", sandbox, "--approvals", "allow"],
        calls: () => [{ command, background: true }],
      }, async ({ greeting }, turn) => {
        assertMatch(resultsOf(await turn())[0]!, /^bg_[0-9a-f]{6} runs, \d+ s so far; no new output$/);
        while (await sleepers(seconds) < 2) { /* They are about to begin. */ }
        await greeting();
        // The system takes a moment to end a sandbox's processes.
        while (await sleepers(seconds) > 0) { /* ps takes its time. */ }
      });
    },
  );
}
