/**
 * Measures the English of this repository: comments, sentences in string literals, Markdown and names of declarations.
 * Prints each rate that misses its target, with the files that contribute most; exits with 1 if any does.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl } from "@std/path";
import ts from "typescript";

/** A pattern and its allowed rate, in occurrences per 10,000 words. */
interface Target {
  readonly name: string;
  readonly pattern: RegExp;
  readonly most?: number;
  readonly least?: number;
}

const TARGETS: readonly Target[] = [
  {
    name: "sentences that open with What, Who, Whoever, Whatever or Whose",
    pattern: /(?:^|[.;:] |\n)(?:What|Who|Whoever|Whatever|Whose)\b[^.?\n]{3,}[.]/g,
    most: 4,
  },
  {
    name: "sentences that open with Of, So many, So much, So long, By how or To where",
    pattern:
      /(?:^|[.;:] |\n)(?:Of (?:a|an|one|what|these|those|its|the)|So (?:many|much|long)|By how|To where)\b/g,
    most: 3,
  },
  { name: "say", pattern: /\b(?:un)?(?:say|says|said|saying)\b/gi, most: 6 },
  { name: "tell", pattern: /\b(?:tell|tells|told|telling)\b/gi, most: 5 },
  {
    name: "nobody, somebody, anybody, whoever",
    pattern: /\b(?:nobody|somebody|anybody|whoever|whosoever)\b/gi,
    most: 2,
  },
  { name: "stands, stood", pattern: /\b(?:stands|stood)\b/gi, most: 2 },
  {
    name: "behind, beside, anew, shall, heed, mend, reckon, vouch, maltreat",
    pattern: /\b(?:behind|beside|anew|shall|heed|mend|mends|mended|reckon|reckons|vouch|maltreat\w*)\b/gi,
    most: 5,
  },
  { name: "of which, by which", pattern: /\b(?:of|by|in|to|behind|for) which\b/gi, most: 4 },
  {
    name: "go on, come to, let go, hand over",
    pattern: /\b(?:goes on|go on|went on|comes to|came of|lets? go|hand(?:s|ed)? (?:over|in))\b/gi,
    most: 3,
  },
  { name: "Nothing if, where, for, of", pattern: /\bNothing (?:if|where|for|of)\b/g, most: 1 },
  { name: "returns", pattern: /\breturns?\b/gi, least: 20 },
];

/** Most headings that are questions. */
const MAX_QUESTIONS = 15;

/** Words that no declaration is named by, as parts of camel-case names. */
const NAME_WORDS =
  "said|says|told|tells|asked|came|kept|keeper|shown|leaves|leaving|goes|whose|figures|pictures?|" +
  "warmth|helpers?|marks|sums|arrival|workplace";
const NAMES = new RegExp(
  `(?:^|[a-z_])(?:${capitalized(NAME_WORDS)})(?:[A-Z]|$)|^(?:${NAME_WORDS})(?:[A-Z]|$)`,
);

/** Most declarations with such names: those that providers and protocols define are among them. */
const MAX_NAMES = 100;

/** Files that are generated, and the history of versions. */
const SKIPPED = /\/assets\.ts$|\.d\.ts$|(?:^|\/)CHANGELOG\.md$/;

const root = fromFileUrl(new URL("../../../", import.meta.url));
const prose: { readonly path: string; readonly text: string }[] = [];
const names: { readonly path: string; readonly name: string }[] = [];
const questions: { readonly path: string; readonly text: string }[] = [];

for (const path of await sources()) {
  const text = await Deno.readTextFile(`${root}${path}`);
  if (path.endsWith(".md")) readMarkdown(path, text);
  else readCode(path, text);
}

const words = prose.reduce((sum, { text }) => sum + (text.match(/[A-Za-z][A-Za-z'’-]*/g)?.length ?? 0), 0);
const faults: string[] = [];
for (const { name, pattern, most = Infinity, least = 0 } of TARGETS) {
  const hits = prose.flatMap(({ path, text }) => Array.from(text.matchAll(pattern), () => path));
  const rate = hits.length / words * 10_000;
  if (rate <= most && rate >= least) continue;
  const target = most < Infinity ? `at most ${most}` : `at least ${least}`;
  faults.push(`${name}: ${rate.toFixed(1)} per 10,000 words, ${target}${most < Infinity ? worst(hits) : ""}`);
}
if (questions.length > MAX_QUESTIONS) {
  faults.push(
    `${questions.length} headings are questions, at most ${MAX_QUESTIONS}${
      worst(questions.map(({ path }) => path))
    }`,
  );
}
if (names.length > MAX_NAMES) {
  faults.push(
    `${names.length} declarations are named by ${NAME_WORDS}, at most ${MAX_NAMES}${
      worst(names.map(({ path }) => path))
    }`,
  );
}
for (const fault of faults) console.log(fault);
if (words === 0 || faults.length > 0) Deno.exit(1);

async function sources(): Promise<readonly string[]> {
  const { stdout } = await new Deno.Command("git", { args: ["ls-files", "*.ts", "*.tsx", "*.md"], cwd: root })
    .output();
  return new TextDecoder().decode(stdout).trimEnd().split("\n").filter((path) => !SKIPPED.test(path));
}

/** Collects the text of a page without its code, and its headings. */
function readMarkdown(path: string, text: string): void {
  const bare = text.replace(/```[\s\S]*?```/g, " ").replace(/`[^`\n]*`/g, "CODE").replace(
    /\]\([^)]*\)/g,
    "]",
  );
  prose.push({ path, text: bare });
  for (const [heading] of bare.matchAll(/^#+ .*\?$/gm)) questions.push({ path, text: heading });
}

/** Collects comments, sentences in literals and the names of declarations. */
function readCode(path: string, text: string): void {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const seen = new Set<number>();
  const visit = (node: ts.Node): void => {
    const comments = [
      ...ts.getLeadingCommentRanges(text, node.pos) ?? [],
      ...ts.getTrailingCommentRanges(text, node.end) ?? [],
    ];
    for (const { pos, end } of comments) {
      if (!seen.has(pos)) prose.push({ path, text: plainComment(text.slice(pos, end)) });
      seen.add(pos);
    }
    const { name } = node as { readonly name?: ts.Node };
    if (name && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name))) {
      const plain = name.text.replace("#", "");
      if (NAMES.test(plain)) names.push({ path, name: plain });
    }
    const isText = ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node);
    if (isText && /[a-z]{2,} [a-z]{2,} [a-z]{2,}/i.test(node.text)) prose.push({ path, text: node.text });
    ts.forEachChild(node, visit);
  };
  visit(source);
}

function plainComment(comment: string): string {
  return comment.replace(/^\/\*\*?|\*\/$/g, "").replace(/^\s*(?:\*|\/\/) ?/gm, "").replace(
    /```[\s\S]*?```/g,
    " ",
  )
    .replace(/`[^`\n]*`/g, "CODE").replace(/\{@link\w* [^}]*\}/g, "CODE").trim();
}

function worst(paths: readonly string[]): string {
  const counts = [...Map.groupBy(paths, (path) => path)].map(([path, all]) => [path, all.length] as const);
  const most = counts.sort(([, a], [, b]) => b - a).slice(0, 5);
  return `: ${most.map(([path, count]) => `${count} in ${path}`).join(", ")}.`;
}

function capitalized(words: string): string {
  return words.replace(/(^|\|)([a-z])/g, (_, bar: string, letter: string) => bar + letter.toUpperCase());
}
