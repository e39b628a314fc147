import process from "node:process";

/** Interval between checks of the parent process, in milliseconds. */
const CHECK_MS = 1000;

/** Programs that only start another one and wait for it, such as the steps of `npx deno task start`. */
const LAUNCHER = /^(\S*\/)?((deno|node|npm|npx)\b|sh -c )/;

/** Returns the ids of ancestors that only launch this process; none where `ps` isn't available. */
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
    // An outermost shell is the user's script.
    if (!/^(\S*\/)?sh /.test(command)) last = found.length;
    pid = parent;
  }
  return found.slice(0, last);
}

/** Calls back once the parent process or one of `others` has ended. */
export function whenLeft(callback: () => void, others: readonly number[] = []): void {
  const parent = Deno.ppid;
  const timer = setInterval(() => {
    if (Deno.ppid === parent && others.every(isAlive)) return;
    clearInterval(timer);
    callback();
  }, CHECK_MS);
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as { readonly code?: unknown }).code === "EPERM";
  }
}
