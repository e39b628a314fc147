// deno-lint-ignore-file no-console -- It prints what the module prints.
/** Runs the function `main` of a bundled module in a Chromium to its end: node in_chromium.mjs MODULE. */
import { access, mkdir, readFile, rename, rm } from "node:fs/promises";
import process from "node:process";
import { fileURLToPath } from "node:url";

const { default: puppeteer } = await import("puppeteer-core");

/** Where installed browsers are, the commonest first. */
const INSTALLED = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/** Where the browser of the package is unpacked; reinstalling removes it. */
const UNPACKED = fileURLToPath(new URL("./node_modules/.chromium", import.meta.url));

function isThere(path) {
  return access(path).then(() => true, () => false);
}

/** An installed Chromium; otherwise that of the package, unpacked when it is first wanted. */
async function browserProgram() {
  for (const folder of process.env.PATH?.split(":") ?? []) {
    for (const name of INSTALLED) {
      if (await isThere(`${folder}/${name}`)) return `${folder}/${name}`;
    }
  }
  if (!await isThere(UNPACKED)) await unpack();
  return `${UNPACKED}/chromium`;
}

/** Unpacks aside, and moves what is whole: the package would take what a killed run left for whole. */
async function unpack() {
  const folder = `${UNPACKED}-${process.pid}`;
  await mkdir(folder);
  process.env.TMPDIR = folder;
  const { default: chromium } = await import("@sparticuz/chromium");
  await chromium.executablePath();
  delete process.env.TMPDIR;
  await rename(folder, UNPACKED).catch(async (error) => {
    // Another run was faster.
    if (!await isThere(UNPACKED)) throw error;
    await rm(folder, { recursive: true });
  });
}

const body = await readFile(process.argv[2]);
const browser = await puppeteer.launch({
  executablePath: await browserProgram(),
  headless: "shell",
  args: ["--no-sandbox"],
  // A suite has no time limit.
  protocolTimeout: 0,
});
try {
  const page = await browser.newPage();
  page.on("console", (message) => console.log(message.text()));
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const isModule = request.url().endsWith("/module.mjs");
    request.respond(
      isModule ? { contentType: "text/javascript", body } : { contentType: "text/html", body: "" },
    );
  });
  // A secure context for cryptography; the host gets no request.
  await page.goto("http://localhost/");
  await page.evaluate('import("/module.mjs").then(({ main }) => main())');
} finally {
  await browser.close();
}
