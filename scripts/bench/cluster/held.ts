/** Length of a period, in microseconds: within each, a process may run for its share. */
const PERIOD_US = 10_000;

/** Processes that are held to a share of a core. Disposing of it lets them go. */
export interface Held extends Disposable {
  /** How they are held. */
  readonly by: "cgroup v2" | "cgroup v1" | "SIGSTOP and SIGCONT";
}

/** Holds each of these processes to the same share of one core, by cgroups where they may be made. */
export function hold(pids: readonly number[], share: number): Held {
  const quotaUs = Math.round(PERIOD_US * share);
  const v2 = {
    root: "/sys/fs/cgroup",
    mark: "cgroup.controllers",
    limits: { "cpu.max": `${quotaUs} ${PERIOD_US}` },
  };
  const v1 = {
    root: "/sys/fs/cgroup/cpu",
    mark: "cpu.cfs_quota_us",
    limits: { "cpu.cfs_period_us": `${PERIOD_US}`, "cpu.cfs_quota_us": `${quotaUs}` },
  };
  for (const [by, groups] of [["cgroup v2", v2], ["cgroup v1", v1]] as const) {
    const undo: (() => void)[] = [];
    const letGo = () => undo.toReversed().forEach((one) => one());
    try {
      for (const pid of pids) undo.push(group(pid, groups));
      return { by, [Symbol.dispose]: letGo };
    } catch {
      letGo();
    }
  }
  return { by: "SIGSTOP and SIGCONT", [Symbol.dispose]: stopAndGo(pids, share) };
}

/** Puts a process into a group of its own. Gives what takes it out again. */
function group(
  pid: number,
  { root, mark, limits }: {
    readonly root: string;
    /** A file that is there if these are groups. */
    readonly mark: string;
    readonly limits: Readonly<Record<string, string>>;
  },
): () => void {
  // What isn't a group is a folder as any other, and takes whatever is written into it.
  Deno.statSync(`${root}/${mark}`);
  const folder = `${root}/tare_bench_${pid}`;
  Deno.mkdirSync(folder);
  const letGo = () => {
    try {
      Deno.writeTextFileSync(`${root}/cgroup.procs`, `${pid}`);
    } catch {
      // The process has ended.
    }
    Deno.removeSync(folder);
  };
  try {
    for (const [file, limit] of Object.entries(limits)) Deno.writeTextFileSync(`${folder}/${file}`, limit);
    Deno.writeTextFileSync(`${folder}/cgroup.procs`, `${pid}`);
    return letGo;
  } catch (error) {
    letGo();
    throw error;
  }
}

/** Stops the processes for what is left of each period; each period begins with another one. */
function stopAndGo(pids: readonly number[], share: number): () => void {
  const periodMs = PERIOD_US / 1000;
  const timers = new Set<ReturnType<typeof setTimeout>>();
  const later = (ms: number, work: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      work();
    }, ms);
    timers.add(timer);
  };
  const run = (pid: number, dueMs: number) => {
    Deno.kill(pid, "SIGCONT");
    later(periodMs * share, () => {
      Deno.kill(pid, "SIGSTOP");
      later(Math.max(0, dueMs + periodMs - performance.now()), () => run(pid, dueMs + periodMs));
    });
  };
  pids.forEach((pid, index) => later(periodMs * index / pids.length, () => run(pid, performance.now())));
  return () => {
    timers.forEach(clearTimeout);
    for (const pid of pids) Deno.kill(pid, "SIGCONT");
  };
}

/** Milliseconds of CPU that a process took since its start, its threads together. */
export function cpuMs(pid: number): number {
  return ticksMs(statOf(pid).slice(11, 13));
}

/** Milliseconds of CPU that a process and its children took, those that have ended too. */
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

/** A hundred ticks a second, on every Linux that there is. */
function ticksMs(ticks: readonly string[]): number {
  return 10 * ticks.reduce((sum, some) => sum + Number(some), 0);
}

/** Id of a process's parent. */
export function parentOf(pid: number): number {
  return Number(statOf(pid)[1]);
}

/** What `/proc/PID/stat` says behind the process's name, its state first. */
function statOf(pid: number): string[] {
  const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}
