/** Implements the Deno functions of file tests with Node's, after `run_suite.ts` in a bundle. */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

const temporary = (prefix = "deno-") => join(tmpdir(), prefix);
const text = new TextEncoder();

/** Flags of `Deno.stat` are values, those of Node methods. */
function info(stats: fs.Stats) {
  return {
    ...stats,
    isFile: stats.isFile(),
    isDirectory: stats.isDirectory(),
    isSymlink: stats.isSymbolicLink(),
  };
}

function entries(path: string) {
  return fs.readdirSync(path, { withFileTypes: true }).map(({ name }) => ({ name }));
}

function openSync(path: string) {
  const fd = fs.openSync(path, "r");
  return {
    get readable() {
      return new Blob([fs.readFileSync(fd)]).stream();
    },
    close: () => fs.closeSync(fd),
    [Symbol.dispose]: () => fs.closeSync(fd),
  };
}

const sync = {
  mkdirSync: fs.mkdirSync,
  statSync: (path: string) => info(fs.statSync(path)),
  lstatSync: (path: string) => info(fs.lstatSync(path)),
  readFileSync: (path: string) => new Uint8Array(fs.readFileSync(path)),
  readTextFileSync: (path: string) => fs.readFileSync(path, "utf8"),
  writeFileSync: (path: string, bytes: Uint8Array) => fs.writeFileSync(path, bytes),
  writeTextFileSync: (path: string, content: string) => fs.writeFileSync(path, text.encode(content)),
  copyFileSync: fs.copyFileSync,
  renameSync: fs.renameSync,
  removeSync: (path: string, options = {}) => fs.rmSync(path, options),
  symlinkSync: (target: string, path: string) => fs.symlinkSync(target, path),
  chmodSync: fs.chmodSync,
  truncateSync: fs.truncateSync,
  openSync,
  readDirSync: entries,
};

/** Returns promise versions of functions. */
const later = Object.fromEntries(
  Object.entries(sync).map(([name, act]) => [
    name.replace("Sync", ""),
    // deno-lint-ignore require-await -- What is thrown is rejected.
    async (...args: unknown[]) => (act as (...args: unknown[]) => unknown)(...args),
  ]),
);

class Command {
  readonly #run: () => { readonly success: boolean };
  constructor(program: string, { args }: { readonly args: readonly string[] }) {
    this.#run = () => ({ success: spawnSync(program, args).status === 0 });
  }
  output = () => Promise.resolve(this.#run());
}

Object.assign((globalThis as unknown as { Deno: object }).Deno, {
  ...sync,
  ...later,
  // Tools read folders by Node's own functions here.
  readDir: undefined,
  Command,
  build: { os: process.platform },
  memoryUsage: () => process.memoryUsage(),
  uid: () => process.getuid?.(),
  remove: rm,
  realPath: realpath,
  makeTempDir: ({ prefix }: { readonly prefix?: string } = {}) => mkdtemp(temporary(prefix)),
});
