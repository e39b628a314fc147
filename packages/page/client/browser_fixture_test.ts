import { assertEquals } from "@std/assert";
import chromium from "@sparticuz/chromium";
import axe from "axe-core";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { startCoverage } from "./coverage_fixture_test.ts";

const INSTALLED = ["chromium", "chromium-browser", "google-chrome", "chrome"];

export const SCREENSHOTS: URL = new URL("../../../.tare/screenshots/", import.meta.url);

const FOLDER = new URL("../../../.tare/", import.meta.url).pathname;

const UNPACKED = FOLDER + import.meta.resolve("@sparticuz/chromium").replaceAll(/\W+/g, "-");

/** Returns the path of an installed Chromium, otherwise of the package's, unpacked at first use. */
async function browserProgram(): Promise<string> {
  for (const folder of Deno.env.get("PATH")?.split(":") ?? []) {
    for (const name of INSTALLED) {
      if (await isThere(`${folder}/${name}`)) return `${folder}/${name}`;
    }
  }
  if (!await isThere(UNPACKED)) await unpack();
  return `${UNPACKED}/chromium`;
}

/** Unpacks into a temporary folder and moves it: the package would use the incomplete files of a killed run. */
async function unpack(): Promise<void> {
  await Deno.mkdir(FOLDER, { recursive: true });
  // Files of tests run at the same time in one process, whose environment they share.
  using lock = await Deno.open(`${UNPACKED}.lock`, { create: true, write: true });
  await lock.lock(true);
  if (await isThere(UNPACKED)) return;
  const folder = await Deno.makeTempDir({ dir: FOLDER });
  const before = Deno.env.get("TMPDIR");
  try {
    Deno.env.set("TMPDIR", folder);
    await chromium.executablePath();
  } finally {
    if (before === undefined) Deno.env.delete("TMPDIR");
    else Deno.env.set("TMPDIR", before);
  }
  await Deno.rename(folder, UNPACKED);
}

function isThere(path: string): Promise<boolean> {
  return Deno.stat(path).then(() => true, () => false);
}

const PATIENCE_MS = 120_000;

export async function startBrowser(): Promise<Browser> {
  const executablePath = await browserProgram();
  // Without fonts it renders no text; the package contains some.
  const fonts = await isThere("/etc/fonts") ? {} : { FONTCONFIG_PATH: `${UNPACKED}/fonts` };
  return await puppeteer.launch({
    executablePath,
    headless: "shell",
    timeout: PATIENCE_MS,
    args: ["--no-sandbox", "--font-render-hinting=none"],
    env: { ...Deno.env.toObject(), ...fonts },
  });
}

/** A page that a test uses, and its console output. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  readonly faults: readonly string[];
  readonly reload: () => Promise<void>;
}

export async function openPage(browser: Browser, url: string): Promise<OpenPage> {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("console", (message) => {
    const isRequest = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isRequest) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`A dialog opened: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.setDefaultTimeout(PATIENCE_MS);
  await page.setViewport({ width: 1280, height: 800 });
  let writeCoverage = await startCoverage(page);
  await page.goto(url);
  return {
    page,
    faults,
    async reload() {
      // A new document discards the coverage of the previous one.
      await writeCoverage();
      writeCoverage = await startCoverage(page);
      await page.reload();
    },
    async [Symbol.asyncDispose]() {
      await writeCoverage();
      await context.close();
      assertEquals(faults, []);
    },
  };
}

/** Widths and heights of a phone, a tablet and a desktop. */
const SIZES = [[1280, 800], [768, 1024], [390, 844]] as const;

/**
 * Checks accessibility and layout in light and dark mode at three widths, and saves a screenshot of each: nothing overflows
 * and no text is cut off, except where it ends with an ellipsis or scrolls.
 */
export async function assertAccessible(page: Page, name: string): Promise<void> {
  for (const scheme of ["light", "dark"]) {
    for (const [width, height] of SIZES) {
      await page.setViewport({ width, height });
      await page.emulateMediaFeatures([
        { name: "prefers-color-scheme", value: scheme },
        { name: "prefers-reduced-motion", value: "reduce" },
      ]);
      await Deno.mkdir(SCREENSHOTS, { recursive: true });
      const path = new URL(`${name}-${scheme}-${width}.png`, SCREENSHOTS).pathname;
      await Deno.writeFile(path, await page.screenshot());
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assertEquals([name, width, overflow], [name, width, Math.min(0, overflow)]);
      assertEquals([name, width, ...await page.evaluate(clippedTexts)], [name, width]);
      if (width === 768) continue;
      // Evaluated outside of the page's Content-Security-Policy.
      const found = await page.evaluate(`${axe.source}; axe.run().then(({ violations }) => violations)`) as {
        readonly id: string;
        readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
      }[];
      const reported = found.map(({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`
      );
      assertEquals([name, scheme, width, ...reported], [name, scheme, width]);
    }
  }
  await page.setViewport({ width: 1280, height: 800 });
}

/** Returns visible texts that are cut off at the edge of an element or of the page. */
function clippedTexts(): string[] {
  const found: string[] = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent!.trim();
    const parent = node.parentElement!;
    if (text === "" || !parent.checkVisibility({ visibilityProperty: true })) continue;
    if (parent.closest(".visually-hidden, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let { left, right } = range.getBoundingClientRect();
    let isDone = false;
    for (let box: Element | null = parent; box && !isDone; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (style.display === "inline" || style.overflowX === "visible") continue;
      const edge = box.getBoundingClientRect();
      const isOver = right > edge.right + 1 || left < edge.left - 1;
      isDone = style.textOverflow === "ellipsis" || isOver && ["auto", "scroll"].includes(style.overflowX);
      if (isOver && !isDone) found.push(`${text.slice(0, 60)} in ${box.tagName}.${box.className}`);
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
    }
    if (!isDone && (right > innerWidth + 1 || left < -1)) found.push(`${text.slice(0, 60)} in the page`);
  }
  return found;
}

export async function seen(page: Page, selector: string, text: string | RegExp): Promise<void> {
  const [source, flags] = typeof text === "string" ? [text, undefined] : [text.source, text.flags];
  await page.waitForFunction(
    (selector, source, flags) =>
      [...document.querySelectorAll(selector)].some(({ textContent }) =>
        flags === undefined
          ? textContent?.includes(source)
          : new RegExp(source, flags).test(textContent ?? "")
      ),
    {},
    selector,
    source,
    flags,
  );
}

/** Waits until the element is there and has stopped moving. A click by coordinates misses one that moves. */
export async function click(page: Page, selector: string): Promise<void> {
  await page.locator(selector).click();
}

/** Waits until the field is visible. Keys typed for a hidden one reach another. */
export async function type(page: Page, selector: string, text: string): Promise<void> {
  const field = await page.waitForSelector(selector, { visible: true });
  await field!.type(text);
}

export async function press(page: Page, name: string): Promise<void> {
  await page.locator(`::-p-aria(${name}[role="button"])`).click();
}

/** For a new document: holds the answer to the first request of a path until `letGo()` of its window is called. */
export function holdFirst(path: string): void {
  const fetched = globalThis.fetch;
  let wanted = 1;
  let over = () => {};
  globalThis.fetch = async (...args) => {
    const [at] = args;
    const isHeld = new URL(at instanceof Request ? at.url : at, location.href).pathname === path &&
      wanted-- > 0;
    const answer = await fetched(...args);
    if (isHeld) {
      await new Promise<void>((resolve) =>
        Object.assign(globalThis, {
          letGo() {
            resolve();
            return new Promise<void>((resolve) => over = resolve);
          },
        })
      );
    } else over();
    return answer;
  };
}
