// A shelf of 10,000 titles in Chromium: only what is near the window is in the document and fetched, and the search finds the rest.
// How fast it is, is measured apart from this, by shelf-times.mjs.

import assert from "node:assert/strict";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { makeManyTitles, TITLES, titleOf } from "./many.mjs";
import { Server } from "./server.mjs";
import { closeBrowser, Viewer } from "./viewer.mjs";

/** Cards in the document of a desktop's window: about four windows of them. */
const CARDS_MAX = 120;
const ELEMENTS_MAX = 3000;
/** Bytes of scripts, compressed. */
const SHELF_BYTES_MAX = 250_000;
const PLAYER_BYTES_MAX = 600_000;

const all = [...Array(TITLES).keys()].map(titleOf);
const byName = new Intl.Collator("en-GB", { numeric: true });
let server;

before(async () => {
  server = await new Server(makeManyTitles(resolve(process.env.FULLBORE_PAGES_OUT ?? "target/pages", "many"))).start();
});

after(async () => {
  await closeBrowser();
  await server?.remove();
});

/** Runs a test with a viewer of the shelf whose browser must not report errors. */
async function atShelf(options, does) {
  const viewer = await Viewer.arrive(options);
  await viewer.during(async () => {
    await viewer.page.goto(server.url);
    await viewer.page.locator(".card").first().waitFor();
    await does(viewer, viewer.page);
    viewer.assertContent();
    viewer.assertAtHome(server.url);
  });
}

/** Shows all titles by name, without folders. */
async function byNameAlone(page) {
  await page.locator(".top select").selectOption("name");
  await page.locator("section.grid").waitFor();
}

/** The names of the cards in the window, from top to bottom. */
const inWindow = (page) =>
  page.evaluate(() => {
    const seen = [...document.querySelectorAll("section.grid .card")].filter((card) => {
      const { top, bottom } = card.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    });
    return seen.map((card) => card.querySelector("h3").textContent);
  });

const sizes = (page) =>
  page.evaluate(() => ({ cards: document.querySelectorAll(".card").length, elements: document.querySelectorAll("*").length }));

async function assertBounded(page) {
  const { cards, elements } = await sizes(page);
  assert.ok(cards > 0 && cards <= CARDS_MAX && elements <= ELEMENTS_MAX, `${cards} cards, ${elements} elements`);
}

/** Scrolls to a share of the page, and waits until cards fill the window there. */
async function scrollTo(page, share) {
  await page.evaluate((share) => scrollTo(0, share * (document.documentElement.scrollHeight - innerHeight)), share);
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector("section.grid").getBoundingClientRect();
    const ends = [Math.max(top + 60, 100), Math.min(bottom - 60, innerHeight - 60)];
    const cards = [...document.querySelectorAll("section.grid .card")].map((card) => card.getBoundingClientRect());
    return ends.every((y) => cards.some((card) => card.top - 40 <= y && y <= card.bottom + 40));
  });
}

test("ten thousand titles: those near the window are in the document, wherever one scrolls", async () => {
  await atShelf({}, async (viewer, page) => {
    await byNameAlone(page);
    const sorted = all.map(({ name }) => name).sort(byName.compare);
    for (const share of [0, 0.31, 0.77, 1, 0.5]) {
      await scrollTo(page, share);
      await assertBounded(page);
      const names = await inWindow(page);
      const at = sorted.indexOf(names[0]);
      assert.ok(names.length >= 4, `${names.length} cards are in the window at ${share}`);
      assert.deepEqual(names, sorted.slice(at, at + names.length));
      assert.ok(Math.abs(at / TITLES - share) < 0.02, `title ${at} is shown at ${share} of the page`);
    }
    assert.equal(await page.locator("section.grid .amount").innerText(), "10,000");
    const [first] = await inWindow(page);
    const item = page.locator("section.grid li", { hasText: first });
    assert.equal(await item.getAttribute("aria-setsize"), String(TITLES));
    assert.equal(await item.getAttribute("aria-posinset"), String(sorted.indexOf(first) + 1));
  });
});

test("ten thousand titles: posters are fetched only near the window", async () => {
  await atShelf({}, async (viewer, page) => {
    const posters = () => viewer.requests.filter((request) => request.url().endsWith("/poster.jpg")).length;
    await byNameAlone(page);
    await page.waitForFunction(() => [...document.images].some((image) => image.complete && image.naturalWidth > 0));
    assert.ok(posters() > 0 && posters() <= 2 * CARDS_MAX, `${posters()} posters at the top`);
    const before = posters();
    await scrollTo(page, 0.6);
    await page.waitForFunction(() => [...document.images].every((image) => image.complete && image.naturalWidth > 0));
    assert.ok(posters() > before && posters() - before <= CARDS_MAX, `${posters() - before} posters after a jump over thousands of titles`);
  });
});

test("ten thousand titles: the search finds by name, language and year", async () => {
  await atShelf({}, async (viewer, page) => {
    const finds = async (query, isWanted) => {
      const wanted = all.filter(isWanted);
      await page.fill("input[type=search]", query);
      const text = `${wanted.length.toLocaleString("en-GB")} of 10,000 titles`;
      await page.getByText(text, { exact: true }).waitFor();
      const names = await inWindow(page);
      const known = new Set(wanted.map(({ name }) => name));
      assert.ok(names.length > 0 && names.every((name) => known.has(name)), `${query}: ${names}`);
      await assertBounded(page);
    };
    await finds("07123", ({ index }) => index === 7123);
    await finds("storm RIVER", ({ name }) => name.includes("Storm") && name.includes("River"));
    await finds("1987", ({ year }) => year === 1987);
    await finds("1960-1964 tower", ({ year, name }) => year >= 1960 && year <= 1964 && name.includes("Tower"));
    await finds("japanese", ({ languages }) => languages.includes("ja"));
    await finds("deutsch 1999", ({ languages, year }) => languages.includes("de") && year === 1999);
    await finds("français palace", ({ languages, name }) => languages.includes("fr") && name.includes("Palace"));
    await page.fill("input[type=search]", "palace nowhere");
    await page.getByText("No title has that name.").waitFor();
  });
});

const headings = (page) => page.locator("section h2").allInnerTexts();
/** The title of the card that has the focus, or the kind of element. */
const focusedName = (page) =>
  page.evaluate(() => {
    const focused = document.activeElement;
    return focused.closest(".card")?.querySelector("h3").textContent ?? focused.tagName;
  });

/** Storage of a viewer who has begun these titles, the last one last. */
function having(...begun) {
  return { places: JSON.stringify(Object.fromEntries(begun.map(({ path }, at) => [encodeURI(path), { seconds: 60, of: 600, at: at + 1 }]))) };
}

test("folders are rows, after what one has begun and what is new", async () => {
  const [first, second] = [all[777], all[12]];
  await atShelf({ storage: having(first, second) }, async (viewer, page) => {
    assert.deepEqual((await headings(page)).slice(0, 3), ["Continue watching", "New", "Series 01"]);
    const names = (section) => page.locator(`section[data-key="${section}"] h3`).allInnerTexts();
    assert.deepEqual(await names("begun"), [second.name, first.name]);
    assert.deepEqual((await names("new")).slice(0, 3), [9999, 9998, 9997].map((index) => all[index].name));
    await assertBounded(page);
    await viewer.picture("shelf-folders");
    const row = page.locator('section[data-key="folder Series 01"]');
    const inFolder = all.filter(({ folder }) => folder === "Series 01").map(({ name }) => name).sort();
    assert.equal(await row.locator(".amount").innerText(), String(inFolder.length));
    await row.locator(".strip").evaluate((strip) => (strip.scrollLeft = strip.scrollWidth));
    await row.getByText(inFolder.at(-1)).waitFor();
    await assertBounded(page);
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 3));
    await page.waitForFunction(() => !document.querySelector('section[data-key="begun"]'));
    await assertBounded(page);
  });
});

test("a folder's heading leads to all its titles, and Escape leads back", async () => {
  await atShelf({}, async (viewer, page) => {
    await page.getByRole("link", { name: "Series 02", exact: true }).click();
    await page.locator("section.grid").waitFor();
    assert.deepEqual(await headings(page), ["Series 02"]);
    const inFolder = all.filter(({ folder }) => folder === "Series 02");
    assert.equal(await page.locator("section.grid .amount").innerText(), String(inFolder.length));
    await page.fill("input[type=search]", "japanese");
    const wanted = inFolder.filter(({ languages }) => languages.includes("ja")).length;
    await page.getByText(`${wanted} of 10,000 titles`, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Series 02" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "New", exact: true }).waitFor();
  });
});

test("a remote's keys reach every row, scroll it, and open a title", async () => {
  await atShelf({ viewport: { width: 1920, height: 1080 } }, async (viewer, page) => {
    const press = async (...keys) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    const newest = (at) => all[TITLES - 1 - at].name;
    await press("ArrowDown");
    assert.equal(await focusedName(page), newest(0));
    await press("ArrowRight", "ArrowRight");
    assert.equal(await focusedName(page), newest(2));
    await press("ArrowDown");
    const series = (folder) => all.filter((title) => title.folder === folder).map(({ name }) => name).sort();
    assert.equal(await focusedName(page), series("Series 01")[2]);
    for (let at = 3; at < 20; at += 1) {
      await press("ArrowRight");
      assert.equal(await focusedName(page), series("Series 01")[at]);
    }
    const box = await page.evaluate(() => document.activeElement.getBoundingClientRect().toJSON());
    assert.ok(box.left >= 0 && box.right <= 1920 && box.top >= 0 && box.bottom <= 1080, JSON.stringify(box));
    for (let row = 1; row < 16; row += 1) await press("ArrowDown");
    assert.equal(await page.evaluate(() => document.activeElement.closest("section")?.dataset.key), "folder Series 16");
    await assertBounded(page);
    await viewer.picture("shelf-television");
    for (let row = 0; row < 17; row += 1) await press("ArrowUp");
    assert.equal(await focusedName(page), "INPUT");
    for (let row = 0; row < 2; row += 1) await press("ArrowDown");
    for (let at = 0; at < 25; at += 1) await press("ArrowLeft");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Series 01");
    await press("ArrowDown", "Enter");
    await page.waitForURL(/\/-\/watch\//);
  });
});

const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const LIGHT = { colorScheme: "light" };
for (const [name, options] of Object.entries({ dark: {}, light: LIGHT, phone: PHONE, "phone, light": { ...PHONE, ...LIGHT } })) {
  test(`axe finds no fault on a shelf of folders: ${name}`, async () => {
    await atShelf({ storage: having(all[777]), ...options }, async (viewer, page) => {
      await page.waitForFunction(() => [...document.images].some((image) => image.complete && image.naturalWidth > 0));
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than its window");
      await viewer.assertFaultless();
      await viewer.picture(`shelf-many-${name.replace(", ", "-")}`);
      await page.fill("input[type=search]", "storm");
      await page.getByRole("heading", { name: "Found" }).waitFor();
      await viewer.assertFaultless();
      await page.fill("input[type=search]", "nowhere");
      await page.getByText("No title has that name.").waitFor();
      await viewer.assertFaultless();
    });
  });
}

const LANGUAGES = [
  { locale: "en-IN", lang: "en", begun: "Continue watching", found: "1 of 10,000 titles" },
  { locale: "de-AT", lang: "de", begun: "Weiterschauen", found: "1 von 10" },
  { locale: "fr-CA", lang: "fr", begun: "Reprendre la lecture", found: "1 titres sur 10" },
  { locale: "es-MX", lang: "es", begun: "Seguir viendo", found: "1 de 10,000 títulos" },
  { locale: "zh-TW", lang: "zh-Hans", begun: "继续观看", found: "1 / 10,000 部影片" },
  // Without words of ours, and with a script that is written from the right.
  { locale: "ar-EG", lang: "en", begun: "Continue watching", found: "1 of 10,000 titles" },
];

for (const { locale, lang, begun, found } of LANGUAGES) {
  test(`the shelf speaks the browser's language: ${locale}`, async () => {
    await atShelf({ locale, storage: having(all[777]) }, async (viewer, page) => {
      assert.equal(await page.locator("html").getAttribute("lang"), lang);
      assert.equal((await headings(page))[0], begun);
      await viewer.assertFaultless();
      await viewer.picture(`shelf-${locale}`);
      await page.fill("input[type=search]", "07123");
      await page.getByRole("status").getByText(found).waitFor();
    });
  });
}

/** The bytes of the scripts that the page has loaded, each compressed as the build compresses it. */
async function scriptBytes(viewer) {
  const scripts = viewer.requests.filter((request) => request.resourceType() === "script");
  const bodies = await Promise.all(scripts.map(async (request) => (await request.response()).body()));
  return bodies.map((body) => brotliCompressSync(body).length).reduce((sum, bytes) => sum + bytes, 0);
}

test("scripts are small: the shelf's", async () => {
  await atShelf({}, async (viewer) => {
    const bytes = await scriptBytes(viewer);
    assert.ok(bytes > 0 && bytes <= SHELF_BYTES_MAX, `${bytes} bytes of scripts`);
  });
});

for (const engine of ["hls", "dash"]) {
  test(`scripts are small: the player's, by ${engine}`, async () => {
    const viewer = await Viewer.arrive({ storage: { engine } });
    await viewer.during(async () => {
      // The title has no film, but the player has to load its scripts to find that out.
      await viewer.page.goto(`${server.url}-/watch/${encodeURIComponent(titleOf(0).name)}`);
      await viewer.page.locator(".player[data-engine]").waitFor();
      const bytes = await scriptBytes(viewer);
      assert.ok(bytes > 100_000 && bytes <= PLAYER_BYTES_MAX, `${bytes} bytes of scripts`);
    });
  });
}
