import { assertEquals } from "@std/assert";
import chromium from "@sparticuz/chromium";
import axe from "axe-core";
import puppeteer, { type Browser, type Page } from "puppeteer-core";
import { startCoverage } from "./coverage_fixture_test.ts";

/** Where installed browsers are, the commonest first. */
const INSTALLED = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/** Where screenshots land: a folder that isn't tracked. */
export const SCREENSHOTS: URL = new URL("../../../.tare/screenshots/", import.meta.url);

/** Where the browser of the package is unpacked, by its version. */
const UNPACKED = new URL(
  `../../../.tare/${import.meta.resolve("@sparticuz/chromium").replaceAll(/\W+/g, "-")}`,
  import.meta.url,
)
  .pathname;

/** An installed Chromium; otherwise that of the package, unpacked when it is first wanted. */
async function browserProgram(): Promise<string> {
  for (const folder of Deno.env.get("PATH")?.split(":") ?? []) {
    for (const name of INSTALLED) {
      if (await isThere(`${folder}/${name}`)) return `${folder}/${name}`;
    }
  }
  if (!await isThere(UNPACKED)) await unpack();
  return `${UNPACKED}/chromium`;
}

/** Unpacks aside, and moves what is whole: the package would take what a killed run left for whole. */
async function unpack(): Promise<void> {
  const folder = `${UNPACKED}-${Deno.pid}`;
  const before = Deno.env.get("TMPDIR");
  await Deno.mkdir(folder, { recursive: true });
  try {
    Deno.env.set("TMPDIR", folder);
    await chromium.executablePath();
  } finally {
    if (before === undefined) Deno.env.delete("TMPDIR");
    else Deno.env.set("TMPDIR", before);
  }
  await Deno.rename(folder, UNPACKED).catch(async (error) => {
    // Another run was faster.
    if (!await isThere(UNPACKED)) throw error;
    await Deno.remove(folder, { recursive: true });
  });
}

function isThere(path: string): Promise<boolean> {
  return Deno.stat(path).then(() => true, () => false);
}

/** How long something that never comes is waited for, on however busy a machine, in milliseconds. */
const PATIENCE_MS = 120_000;

/** Starts a Chromium. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = await browserProgram();
  // Without any fonts it draws nothing; the package has some.
  const fonts = await isThere("/etc/fonts") ? {} : { FONTCONFIG_PATH: `${UNPACKED}/fonts` };
  return await puppeteer.launch({
    executablePath,
    headless: "shell",
    timeout: PATIENCE_MS,
    args: ["--no-sandbox", "--font-render-hinting=none"],
    env: { ...Deno.env.toObject(), ...fonts },
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
  page.setDefaultTimeout(PATIENCE_MS);
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
