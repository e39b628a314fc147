/**
 * A hostile process: it exchanges a folder for a link to another one, again and again, until it is ended. Holds no
 * tests.
 *
 * @module
 */
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
    } catch {
      rebuild();
    }
  }
}
