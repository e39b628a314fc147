/**
 * Expands compressed results, as the specification of compression's inverse: it uses only visible content,
 * and shares no code with the compression on purpose. Contains no tests.
 *
 * @module
 */

export interface NamedText {
  readonly name: string;
  readonly text: string;
}

/** Original of a result, as far as it can be rebuilt. */
export interface Expanded {
  readonly text: string;
  /** Reference for recalling the original, from a visible marker; absent if `text` is the original. */
  readonly ref?: string;
}

const HEADER = /^\[compressed: (.*)\]$/s;
const LABEL = /^\[(?:lines (\d+)-(\d+)|(\d+) lines) unchanged, as in (.+) above: "(.*)" to "(.*)"\]$/s;
const NUMBERS =
  /^line numbers ((?:"(?:[^"\\]|\\.)*" to \d+(?:, )?)+)(?: \(none on ("(?:[^"\\]|\\.)*")\))? (only on the first and each tenth line|but in references)$/;
const RUN = /("(?:[^"\\]|\\.)*") to (\d+)/g;
/** Line numbers of tools without a header that describes them. */
const KNOWN_NUMBER = /^(?: *\d+(?:→|\t|: |\) )|0\d*\| | *[1-9]\d*\|)/;

/**
 * Rebuilds a result.
 *
 * @param above The visible texts before it in order, with their names.
 * @throws {Error} if visible content contradicts the first line, or a label has no target.
 */
export function expand(visible: string, above: readonly NamedText[] = []): Expanded {
  const { parts, lines: body } = split(visible);
  const given = parts.find((part) => NUMBERS.test(part));
  if (given) return { text: joined(readNumbered(body, { part: given, above })) };
  let lines = withLabels(body, above);
  if (parts.includes("equal lines are counted")) {
    const all: string[] = [];
    for (const line of lines) {
      const more = Number(/^\((\d+) more lines like this\)$/.exec(line)?.[1] ?? 0);
      all.push(...(more > 0 ? Array.from({ length: more }, () => all.at(-1)!) : [line]));
    }
    lines = all;
  }
  const folder = valueOf(parts, "paths are in ");
  if (folder !== undefined) {
    lines = lines.map((line) => line === "" || /\s/.test(line) ? line : folder + line);
  }
  if (parts.includes("hits by file")) lines = withPaths(lines);
  let text = lines.join("\n");
  const indentation = valueOf(parts, "JSON without its indentation by ");
  if (indentation !== undefined) text = laidOut(text, JSON.parse(indentation));
  if (parts.includes("JSON without spaces")) text = spaced(text);
  const ref = parts.map((part) =>
    /^terminal codes.* omitted; recall with ref ([0-9a-f]{16})$/.exec(part)?.[1]
  )
    .find(Boolean);
  return ref === undefined ? { text } : { text, ref };
}

function split(visible: string): { readonly parts: readonly string[]; readonly lines: readonly string[] } {
  const all = visible.split("\n");
  const header = HEADER.exec(all[0]!)?.[1];
  if (header === undefined) return { parts: [], lines: all };
  return { parts: header.split(/; (?!recall with)/), lines: all.slice(1) };
}

function valueOf(parts: readonly string[], start: string): string | undefined {
  return parts.find((part) => part.startsWith(start))?.slice(start.length);
}

interface Line {
  readonly mark: string;
  readonly line: string;
}

function joined(lines: readonly Line[]): string {
  return lines.map(({ mark, line }) => mark + line).join("\n");
}

/** Separates the lines of a numbered text from their numbers. */
function readNumbered(
  body: readonly string[],
  { part, above }: { readonly part: string; readonly above: readonly NamedText[] },
): Line[] {
  const [, runsText = "", noneText, which = ""] = NUMBERS.exec(part)!;
  const isThinned = which.startsWith("only");
  const blank = noneText === undefined ? undefined : JSON.parse(noneText) as string;
  const runs = [...runsText.matchAll(RUN)].map(([, mark, last]) => ({
    mark: JSON.parse(mark!) as string,
    last: Number(last),
  }));
  const lines: Line[] = [];
  let next = 0;
  let number: number | undefined;
  let isExpected = true;
  for (const line of body) {
    const [label, start, end, count, name, first = "", last = ""] = LABEL.exec(line) ?? [];
    const run = runs[next];
    if (
      number === undefined && run &&
      (label ? Number(start) === numberIn(run.mark) : line.startsWith(run.mark))
    ) {
      number = numberIn(run.mark);
      isExpected = true;
    }
    const write = (text: string) => {
      if (number === undefined || text === blank) return void lines.push({ mark: "", line: text });
      lines.push({ mark: markLike(run!.mark, number), line: text });
      if (number++ === run!.last) {
        number = undefined;
        next++;
      }
    };
    if (label !== undefined) {
      const length = count === undefined ? Number(end) - Number(start) + 1 : Number(count);
      if (start !== undefined && number !== Number(start)) throw new Error(`Line ${number} is not ${start}`);
      for (const one of blockAbove(above, { name: name!, length, first, last })) write(one);
      isExpected = true;
    } else if (number === undefined || line === blank) write(line);
    else {
      const mark = markLike(run!.mark, number);
      const isMarked = isExpected || !isThinned || number % 10 === 0;
      if (isMarked && !line.startsWith(mark)) throw new Error(`Line ${number} has no number: ${line}`);
      write(isMarked ? line.slice(mark.length) : line);
      isExpected = false;
    }
  }
  if (next < runs.length) throw new Error(`The lines of run ${next} are missing`);
  return lines;
}

function numberIn(mark: string): number {
  return Number(/\d+/.exec(mark)![0]);
}

function markLike(first: string, number: number): string {
  const [padded] = /^\s*\d+/.exec(first)!;
  return String(number).padStart(padded.length, padded.startsWith("0") ? "0" : " ") +
    first.slice(padded.length);
}

function blockAbove(
  above: readonly NamedText[],
  { name, length, first, last }: {
    readonly name: string;
    readonly length: number;
    readonly first: string;
    readonly last: string;
  },
): readonly string[] {
  for (const { text } of above.filter((one) => one.name === name).toReversed()) {
    for (const lines of readingsOf(text)) {
      for (let at = 0; at + length <= lines.length; at++) {
        const block = lines.slice(at, at + length);
        if (block.some((line) => LABEL.test(line))) continue;
        if (block[0]!.trim().startsWith(first) && block.at(-1)!.trim().endsWith(last)) return block;
      }
    }
  }
  throw new Error(`Nothing above begins with "${first}" and ends with "${last}" after ${length} lines`);
}

function readingsOf(text: string): (readonly string[])[] {
  const { parts, lines } = split(text);
  const numbered = parts.find((part) => NUMBERS.test(part));
  if (numbered) {
    const plain = lines.map((line) => {
      const mark = NUMBERS.exec(numbered)![1]!.match(/"((?:[^"\\]|\\.)*)"/)!;
      const separator = (JSON.parse(mark[0]) as string).replace(/^\s*\d+/, "");
      const [number] = /^\s*\d+/.exec(line) ?? [""];
      return number !== "" && line.startsWith(number + separator)
        ? line.slice((number + separator).length)
        : line;
    });
    return [plain];
  }
  return [lines, lines.map((line) => line.replace(KNOWN_NUMBER, ""))];
}

function withLabels(lines: readonly string[], above: readonly NamedText[]): string[] {
  return lines.flatMap((line) => {
    const [label, start, end, count, name, first = "", last = ""] = LABEL.exec(line) ?? [];
    if (label === undefined || above.length === 0) return [line];
    const length = count === undefined ? Number(end) - Number(start) + 1 : Number(count);
    return blockAbove(above, { name: name!, length, first, last });
  });
}

/** Prefixes lines of hits with the paths of the headings above them. */
function withPaths(lines: readonly string[]): string[] {
  const all: string[] = [];
  let path: string | undefined;
  lines.forEach((line, at) => {
    const sign = /^\d+([:-])/.exec(line)?.[1];
    if (path !== undefined && sign !== undefined) all.push(`${path}${sign}${line}`);
    else if (path !== undefined && line === "--") all.push(line);
    else if (/^\d+[:-]/.test(lines[at + 1] ?? "")) path = line;
    else {
      path = undefined;
      all.push(line);
    }
  });
  return all;
}

/** Splits JSON into strings, brackets, punctuation and everything else. */
function tokensOf(json: string): string[] {
  return json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|\s+|[^\s"{}[\],:]+/g) ?? [];
}

/** Formats compact JSON as `JSON.stringify(value, null, indentation)` does. */
function laidOut(json: string, indentation: string): string {
  let text = "";
  let depth = 0;
  const tokens = tokensOf(json);
  tokens.forEach((token, at) => {
    const [before, after] = [tokens[at - 1], tokens[at + 1]];
    if (/^[}\]]$/.test(token)) {
      depth--;
      if (before !== "{" && before !== "[") text += `\n${indentation.repeat(depth)}`;
    }
    text += token;
    if (/^[{[]$/.test(token)) {
      depth++;
      if (after !== "}" && after !== "]") text += `\n${indentation.repeat(depth)}`;
    }
    if (token === ",") text += `\n${indentation.repeat(depth)}`;
    if (token === ":") text += " ";
  });
  return text;
}

function spaced(json: string): string {
  return tokensOf(json).map((token) => token === "," || token === ":" ? `${token} ` : token).join("");
}
