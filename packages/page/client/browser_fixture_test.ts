import { assertEquals } from "@std/assert";
import chromium from "@sparticuz/chromium";
import axe from "axe-core";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { startCoverage } from "./coverage_fixture_test.ts";

/** Where installed browsers are, the commonest first. */
const INSTALLED = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/** Where screenshots land: a folder that isn't tracked. */
export const SCREENSHOTS: URL = new URL("../../../.tare/screenshots/", import.meta.url);

/** The program of an installed Chromium; otherwise that of the package, unpacked once for all that run at a time. */
async function browserProgram(): Promise<string> {
  for (const folder of Deno.env.get("PATH")?.split(":") ?? []) {
    for (const name of INSTALLED) {
      const path = `${folder}/${name}`;
      if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return path;
    }
  }
  return await chromium.executablePath();
}

/** Starts a Chromium. */
export async function startBrowser(): Promise<Browser> {
  return await puppeteer.launch({
    executablePath: await browserProgram(),
    headless: "shell",
    args: ["--no-sandbox", "--font-render-hinting=none"],
  });
}

/** A page that a test uses, and what it said on its console. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  /** Errors on the console and exceptions, but for failed requests, which tests cause. */
  readonly faults: readonly string[];
  /** Loads it again. */
  readonly reload: () => Promise<void>;
}

/** Opens the page. When it is disposed of, nothing may have gone wrong in it. */
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
  page.setDefaultTimeout(20_000);
  await page.setViewport({ width: 1280, height: 800 });
  let writeCoverage = await startCoverage(page);
  await page.goto(url);
  return {
    page,
    faults,
    async reload() {
      // What ran before is forgotten with the document.
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

/** Nothing in the view keeps anybody out, by light and by dark, wide and narrow; a picture of each is kept. */
export async function assertAccessible(page: Page, name: string): Promise<void> {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      await page.setViewport({ width, height: 800 });
      await page.emulateMediaFeatures([
        { name: "prefers-color-scheme", value: scheme },
        { name: "prefers-reduced-motion", value: "reduce" },
      ]);
      await Deno.mkdir(SCREENSHOTS, { recursive: true });
      const path = new URL(`${name}-${scheme}-${width}.png`, SCREENSHOTS).pathname;
      await Deno.writeFile(path, await page.screenshot());
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assertEquals([name, width, overflow], [name, width, Math.min(0, overflow)]);
      // Not a script of the page: its policy stays as it is.
      const found = await page.evaluate(`${axe.source}; axe.run().then(({ violations }) => violations)`) as {
        readonly id: string;
        readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
      }[];
      const told = found.map(({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`
      );
      assertEquals([name, scheme, width, ...told], [name, scheme, width]);
    }
  }
  await page.setViewport({ width: 1280, height: 800 });
}

/** Waits until the page shows a text in an element. */
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

/** Clicks the button of this name. */
export async function press(page: Page, name: string): Promise<void> {
  await page.locator(`::-p-aria(${name}[role="button"])`).click();
}
