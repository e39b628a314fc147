import { fromFileUrl } from "@std/path";
import { PROFILES } from "@tare/planner";
import { loadData } from "../scripts/bench/economy/load_data.ts";
import { checkAllIsShown, play } from "./played_session.ts";

const FOLDER = new URL("../../shared/trajectories/", import.meta.url);

function exists(folder: URL): boolean {
  try {
    return Deno.statSync(folder).isDirectory;
  } catch {
    return false;
  }
}

Deno.test({
  name: exists(FOLDER)
    ? "invariant 8 holds on recorded sessions"
    : `invariant 8 on recorded sessions: skipped, ${fromFileUrl(FOLDER)} is not there`,
  ignore: !exists(FOLDER),
  async fn() {
    for (const { recordings } of loadData(fromFileUrl(FOLDER), { limit: 6, warn: () => {} })) {
      for (const { messages, calls } of recordings) {
        const histories = calls.map((call) => messages.slice(0, call.messages));
        const times = calls.map(({ timeMs }, at) => timeMs - (calls[at - 1]?.timeMs ?? timeMs));
        for (const name of ["anthropic-5m", "deepseek", "none"]) {
          await play(histories, {
            profile: PROFILES[name]!,
            windowTokens: 1_000_000,
            idleMs: (call) => times[call] ?? 0,
            check: checkAllIsShown,
          });
        }
      }
    }
  },
});
