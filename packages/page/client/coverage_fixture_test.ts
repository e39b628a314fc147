import { eachMapping, TraceMap } from "@jridgewell/trace-mapping";
import type { Page } from "puppeteer-core";

const FOLDER = Deno.env.get("DENO_COVERAGE_DIR");

const BUNDLE = new URL("../../../scripts/bundle_page.ts", import.meta.url);

let map: Promise<TraceMap> | undefined;

async function readMap(): Promise<TraceMap> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--frozen", "--allow-all", BUNDLE.pathname, "--map"],
  }).output();
  return new TraceMap(new TextDecoder().decode(stdout));
}

/** Records which lines of the page's source run. The returned function writes them as lcov. */
export async function startCoverage(page: Page): Promise<() => Promise<void>> {
  if (!FOLDER) return () => Promise.resolve();
  await page.coverage.startJSCoverage({ resetOnNavigation: false, includeRawScriptCoverage: true });
  return async () => {
    const entries = await page.coverage.stopJSCoverage();
    const lines = new Map<string, Map<number, number>>();
    for (const { text, rawScriptCoverage } of entries) {
      if (!rawScriptCoverage?.url.endsWith("/page.js")) continue;
      const count = counter(rawScriptCoverage.functions.flatMap(({ ranges }) => ranges));
      const starts = [0, ...text.matchAll(/\n/g).map(({ index }) => index + 1)];
      eachMapping(await (map ??= readMap()), ({ source, originalLine, generatedLine, generatedColumn }) => {
        if (source === null || originalLine === null || source.includes("/npm/")) return;
        const its = lines.get(source) ?? new Map<number, number>();
        lines.set(source, its);
        const times = count(starts[generatedLine - 1]! + generatedColumn);
        its.set(originalLine, Math.max(its.get(originalLine) ?? 0, times));
      });
    }
    const report = [...lines].map(([source, its]) =>
      `SF:${source}\n${[...its].map(([line, times]) => `DA:${line},${times}\n`).join("")}end_of_record\n`
    );
    await Deno.mkdir(FOLDER, { recursive: true });
    await Deno.writeTextFile(`${FOLDER}/${crypto.randomUUID()}.lcov`, report.join(""));
  };
}

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

/** Returns a function that returns how often a position ran: the count of the smallest range around it. */
function counter(ranges: readonly Range[]): (offset: number) => number {
  const bySize = ranges.toSorted((a, b) => a.endOffset - a.startOffset - (b.endOffset - b.startOffset));
  return (offset) =>
    bySize.find(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)?.count ?? 0;
}
