const REASONS: Readonly<Record<string, string>> = {
  E2BIG: "it is longer than the system allows. Write it to a file and run that.",
  EACCES: "permission denied.",
  EBUSY: "it is in use by the system.",
  EDQUOT: "the disk quota is used up.",
  EEXIST: "it exists already.",
  EFBIG: "the file would be larger than the system allows.",
  EIO: "the disk reported an error.",
  EISDIR: "it is a folder, not a file.",
  ELOOP: "its symbolic links lead in a circle.",
  EMFILE: "too many files are open at the moment; try again.",
  ENAMETOOLONG: "its name is longer than the file system allows.",
  ENFILE: "too many files are open at the moment; try again.",
  ENOENT: "it does not exist.",
  ENOSPC: "the disk is full.",
  ENOTDIR: "a part of its path is a file, not a folder.",
  ENOTEMPTY: "the folder is not empty.",
  EPERM: "the system does not permit it.",
  EROFS: "the file system is read-only.",
  ESTALE: "the network file system lost it; try again.",
  ETXTBSY: "it is a program that is running.",
};

/**
 * What went wrong with a file, in plain words; `undefined` if the error didn't come from the system. The
 * system's own message is not used: it names absolute paths.
 */
export function ioReason(error: unknown): string | undefined {
  if (error instanceof Deno.errors.NotCapable) return "this server was started without permission for it.";
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  return REASONS[error.code] ?? `the system answered ${error.code}.`;
}
