#!/usr/bin/env node
// deno-lint-ignore-file no-console
// Runs ../tare.ts with the Deno binary of the npm package `deno`.
import { spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const require = createRequire(import.meta.url);

/** Returns the path of Deno's binary, installed at the first call: npm links this folder without its dependencies. */
function denoBinary() {
  try {
    return require("deno/install_api.cjs").runInstall();
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
  }
  console.error("Installing Deno (130 MB, once) …");
  const { status } = spawnSync(
    "npm",
    ["install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"],
    {
      ...{ cwd: here, shell: process.platform === "win32" },
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  if (status === 0) return require("deno/install_api.cjs").runInstall();
  console.error(`Cannot install Deno. Run npm install in ${here}.`);
  process.exit(1);
}

const program = fileURLToPath(new URL("../tare.ts", import.meta.url));
const child = spawn(denoBinary(), ["run", "--allow-all", program, ...process.argv.slice(2)], {
  stdio: "inherit",
});
// The terminal sends Ctrl-C to all processes; signals to this process only are forwarded.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
