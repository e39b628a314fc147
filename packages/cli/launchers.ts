import process from "node:process";

/** How often a process looks whether who started it is still there, in milliseconds. */
const LOOK_MS = 1000;

/** Programs that only start others and wait for them, as `npx deno task start` does; a shell's own command too. */
const LAUNCHER = /^(\S*\/)?((deno|node|npm|npx)\b|sh -c )/;

/** Returns the ids of parent processes that only launch this one; none where `ps` isn't available. */
export async function launchers(): Promise<readonly number[]> {
  const parents = new Map<number, { readonly parent: number; readonly command: string }>();
  try {
    const { stdout } = await new Deno.Command("ps", {
      args: ["-A", "-o", "pid=,ppid=,args="],
      stderr: "null",
    })
      .output();
    for (const line of new TextDecoder().decode(stdout).split("\n")) {
      const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
      if (command !== undefined) parents.set(Number(pid), { parent: Number(parent), command });
    }
  } catch {
    return [];
  }
  const found: number[] = [];
  let last = 0;
  for (let pid = Deno.ppid;;) {
    const { parent, command } = parents.get(pid) ?? {};
    if (parent === undefined || command === undefined || !LAUNCHER.test(command)) break;
    found.push(pid);
    // A shell in front of them all is a person's script.
    if (!/^(\S*\/)?sh /.test(command)) last = found.length;
    pid = parent;
  }
  return found.slice(0, last);
}

/** Calls back once the process that started this one has ended, or one of the others. */
export function whenLeft(callback: () => void, others: readonly number[] = []): void {
  const parent = Deno.ppid;
  const timer = setInterval(() => {
    if (Deno.ppid === parent && others.every(isAlive)) return;
    clearInterval(timer);
    callback();
  }, LOOK_MS);
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It may be another user's.
    return (error as { readonly code?: unknown }).code === "EPERM";
  }
}
