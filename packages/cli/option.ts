export interface OptionReader<T> {
  /** Returns undefined for an invalid value. */
  readonly read: (text: string) => T | undefined;
  /** Description of valid values. */
  readonly right: string;
}

/** Returns a reader of whole numbers between two limits, inclusive. */
export function wholeNumber(least: number, most: number): OptionReader<number> {
  return {
    read: (digits) => {
      const isRight = /^\d+$/.test(digits) && Number(digits) >= least && Number(digits) <= most;
      return isRight ? Number(digits) : undefined;
    },
    right: `a whole number from ${least} to ${most}`,
  };
}

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
