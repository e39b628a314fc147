import { PROTOCOLS } from "@tare/wire";

/** A path under `/v1` by which models are used. */
interface ModelPath {
  /** Its parts behind `/v1`. */
  readonly path: string;
  /** Whether what is below it belongs to it too. Default: no. */
  readonly below?: boolean;
  /** The methods that use a model, and change nothing of what its owner has. Default: any. */
  readonly methods?: readonly string[];
}

/**
 * What goes to a provider with the server's own key: the paths that models are used with, and nothing by which an account
 * is managed.
 */
const MODEL_PATHS: readonly ModelPath[] = [
  ...PROTOCOLS.flatMap(({ path, countPath, followsField }) => [
    { path: path.slice(1), below: followsField !== undefined },
    ...(countPath === undefined ? [] : [{ path: countPath.slice(1) }]),
  ]),
  { path: "completions" },
  // A model that is somebody's own can be deleted.
  { path: "models", below: true, methods: ["GET", "HEAD"] },
  { path: "embeddings" },
  { path: "moderations" },
  { path: "files", below: true },
  { path: "images", below: true },
  { path: "audio", below: true },
  { path: "batches", below: true },
  { path: "messages/batches", below: true },
];

/**
 * The parts of a path, each decoded once: `/v1/a%2Fb` has the parts `v1` and `a/b`. Nothing of one that isn't encoded as
 * UTF-8.
 */
export function readPath(pathname: string): readonly string[] | undefined {
  try {
    return pathname.slice(1).split("/").map((part) => part.includes("%") ? decodeURIComponent(part) : part);
  } catch {
    return undefined;
  }
}

/** Whether a provider could take a path for another one: it has empty parts, or some that lead upwards, however encoded. */
export function isCrooked(parts: readonly string[]): boolean {
  return parts.some((part) => {
    let text = part;
    for (let before = ""; before !== text;) {
      before = text;
      try {
        text = decodeURIComponent(text);
      } catch {
        // As far decoded as can be.
      }
    }
    return text.split(/[/\\]/).some((piece) => piece === "" || piece === "." || piece === "..");
  });
}

/**
 * Whether a path, without `v1` in front, is one that a provider is asked for with the server's key, with this method.
 * `more` are others, such as `/v1/vector_stores`, with what is below them.
 */
export function isModelPath(
  parts: readonly string[],
  { method, more = [] }: { readonly method: string; readonly more?: readonly string[] },
): boolean {
  const all = [
    ...MODEL_PATHS,
    ...more.map((path): ModelPath => ({ path: path.replace(/^\/v1\//, ""), below: true })),
  ];
  return all.some((one) => fits(one, parts) && (one.methods?.includes(method) ?? true));
}

/** The methods of a path that takes only some. */
export function methodsOf(parts: readonly string[]): readonly string[] {
  return MODEL_PATHS.find((one) => one.methods && fits(one, parts))?.methods ?? [];
}

function fits({ path, below = false }: ModelPath, parts: readonly string[]): boolean {
  const words = path.split("/");
  if (parts.length < words.length || (!below && parts.length > words.length)) return false;
  return words.every((word, at) => parts[at] === word);
}
