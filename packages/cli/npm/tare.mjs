#!/usr/bin/env node
// Runs ../tare.ts with the Deno that npx downloads.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../tare.ts", import.meta.url));
const args = ["-y", "deno@2.9.6", "run", "--allow-all", program, ...process.argv.slice(2)];
const child = spawn("npx", args, { stdio: "inherit", shell: process.platform === "win32" });
// The terminal sends Ctrl-C to all processes; signals to this process only are forwarded.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
