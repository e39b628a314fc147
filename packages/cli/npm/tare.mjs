#!/usr/bin/env node
// Runs ../tare.ts by the Deno that npx brings along, as the README's commands do.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../tare.ts", import.meta.url));
const args = ["-y", "deno@2.9.6", "run", "--allow-all", program, ...process.argv.slice(2)];
const child = spawn("npx", args, { stdio: "inherit", shell: process.platform === "win32" });
// The terminal's Ctrl-C reaches all; what this process alone is sent it passes on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
