/**
 * A hostile process: it exchanges a folder for a link to another one, again and again, until it is ended. Holds no
 * tests.
 *
 * @module
 */

/** Longest time that the folder stays in place between two exchanges. */
const MAX_PAUSE_MS = 0.2;

if (import.meta.main) {
  const [folder = "", outside = ""] = Deno.args;
  const [aside, link] = [`${folder}-aside`, `${folder}-link`];
  /** Its victims make and remove folders meanwhile. */
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
      // A call that opens the file twice must find the folder in place now and then, however fast the exchange is.
      const untilMs = performance.now() + MAX_PAUSE_MS * Math.random();
      while (performance.now() < untilMs);
    } catch {
      rebuild();
    }
  }
}
