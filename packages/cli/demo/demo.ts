/**
 * Plays one long session three times, to see what Tare saves: `deno task demo`.
 *
 * @module
 */
// deno-lint-ignore-file no-console

console.error("Loading the demo. The first time, its packages are downloaded.");
// Computed, so that the line above is printed before anything is loaded.
const { main }: typeof import("./play_demo.ts") = await import(new URL("play_demo.ts", import.meta.url).href);
await main();
