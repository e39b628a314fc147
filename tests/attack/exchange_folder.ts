/**
 * Swaps a folder with a link to another one in a loop, as a hostile process. Contains no tests.
 *
 * @module
 */

const MAX_PAUSE_MS = 0.2;

if (import.meta.main) {
  const [folder = "", outside = ""] = Deno.args;
  const [aside, link] = [`${folder}-aside`, `${folder}-link`];
  const rebuild = () => {
    for (const path of [folder, aside, link]) {
      try {
        Deno.removeSync(path, { recursive: true });
      } catch { /* It isn't there, or was filled again. */ }
    }
    try {
      Deno.mkdirSync(folder);
      Deno.writeTextFileSync(`${folder}/x`, "inside text\n");
      Deno.symlinkSync(outside, link);
    } catch { /* The next round does it. */ }
  };
  rebuild();
  Deno.stdout.writeSync(new Uint8Array([10]));
  for (;;) {
    try {
      Deno.renameSync(folder, aside);
      Deno.renameSync(link, folder);
      Deno.renameSync(folder, link);
      Deno.renameSync(aside, folder);
      // A call that opens the file twice must sometimes find the folder in place, however fast the swaps
      // are.
      const untilMs = performance.now() + MAX_PAUSE_MS * Math.random();
      while (performance.now() < untilMs);
    } catch {
      rebuild();
    }
  }
}
