import type { Task } from "./task.ts";
import { CHANGES } from "./tasks/changes.ts";
import { LARGE } from "./tasks/large.ts";
import { MANY_FILES } from "./tasks/many_files.ts";
import { MEMORY } from "./tasks/memory.ts";

export const TASKS: readonly Task[] = [...CHANGES, ...MANY_FILES, ...MEMORY, ...LARGE];
