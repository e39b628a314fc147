export function cpuMs(pid: number): number {
  return ticksMs(statOf(pid).slice(11, 13));
}

/** Returns the CPU time of a process and its children, including ended ones, in milliseconds. */
export function cpuWithChildrenMs(pid: number): number {
  const ofChildren = [...Deno.readDirSync("/proc")].map(({ name }) => {
    try {
      return Number(name) > 0 && parentOf(Number(name)) === pid ? cpuMs(Number(name)) : 0;
    } catch (error) {
      // It has ended meanwhile.
      if (error instanceof Deno.errors.NotFound || (error as { code?: string }).code === "ESRCH") return 0;
      throw error;
    }
  });
  return ticksMs(statOf(pid).slice(11, 15)) + ofChildren.reduce((sum, ms) => sum + ms, 0);
}

export function memoryOf(pid: number): number {
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))?.[1]);
}

export function writtenBytes(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(Deno.readTextFileSync(`/proc/${pid}/io`))?.[1]);
}

/** Converts clock ticks to milliseconds: Linux reports a hundred per second. */
function ticksMs(ticks: readonly string[]): number {
  return 10 * ticks.reduce((sum, some) => sum + Number(some), 0);
}

export function parentOf(pid: number): number {
  return Number(statOf(pid)[1]);
}

/** Returns the fields of `/proc/PID/stat` after the process's name, its state first. */
function statOf(pid: number): string[] {
  const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}
