/**
 * A store in one SQLite file, behind the same port as the others. It has no dependencies beside the SQLite that Deno,
 * Node and Bun bring, and needs to read and write the file's folder.
 *
 * {@linkcode openStore} opens it, {@linkcode openFileContents} all that it holds, to be copied.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { openFileContents } from "./contents.ts";
export { openStore } from "./open_store.ts";
