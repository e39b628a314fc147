/** How a value is read, and what would be right. */
export interface OptionReader<T> {
  /** The value, or nothing for a wrong one. */
  readonly read: (text: string) => T | undefined;
  readonly right: string;
}

/** Reads a whole number within these limits. */
export function wholeNumber(least: number, most: number): OptionReader<number> {
  return {
    read: (digits) => {
      const isRight = /^\d+$/.test(digits) && Number(digits) >= least && Number(digits) <= most;
      return isRight ? Number(digits) : undefined;
    },
    right: `a whole number from ${least} to ${most}`,
  };
}

/** Whether a folder is there. */
export function isDirectory(path: string): boolean {
  return infoOf(path)?.isDirectory ?? false;
}

export function isFile(path: string): boolean {
  return infoOf(path)?.isFile ?? false;
}

function infoOf(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}
