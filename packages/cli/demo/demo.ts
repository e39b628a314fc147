/**
 * Plays one session three times and compares the costs: `deno task demo`.
 *
 * @module
 */
// deno-lint-ignore-file no-console

console.error("Loading the demo (the first time, its packages are downloaded) …");
// Imported dynamically, so that the line above is printed first.
const { main }: typeof import("./play_demo.ts") = await import(new URL("play_demo.ts", import.meta.url).href);
await main();
