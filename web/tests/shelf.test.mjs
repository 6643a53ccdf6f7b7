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

/** A title's path as the server's list has it. */
const encoded = (path) => encodeURI(path).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);

/** Storage of a viewer who has begun these titles, the last one last. */
function having(...begun) {
  return { places: JSON.stringify(Object.fromEntries(begun.map(({ path }, at) => [encoded(path), { seconds: 60, of: 600, at: at + 1 }]))) };
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
    await page.fill("input[type=search]", "1987");
    const wanted = inFolder.filter(({ year }) => year === 1987).length;
    assert.ok(wanted > 0 && wanted < inFolder.length);
    await page.getByText(`${wanted} of ${inFolder.length} titles`, { exact: true }).waitFor();
    assert.deepEqual(await headings(page), ["Found · Series 02"]);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Series 02", exact: true }).waitFor();
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
  { locale: "fr-CA", lang: "fr", begun: "Reprendre la lecture", found: "1 sur 10" },
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

/**
 * Runs a test at a shelf of these titles, in place of the server's own. `change` puts others in their place, and waits until the page has fetched
 * them.
 */
async function atShelfOf(titles, options, does) {
  const viewer = await Viewer.arrive(options);
  let version = 0;
  const picture = { body: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 9"/>', contentType: "image/svg+xml" };
  await viewer.context.route("**/poster*.jpg", (route) => route.fulfill(picture));
  await viewer.context.route("**/titles.json", (route) => {
    const json = { version: 1, kind: "titles", is_complete: true, titles };
    return route.fulfill({ json, headers: { etag: `"${version}"` } });
  });
  const change = async (others) => {
    [titles, version] = [others, version + 1];
    const answer = viewer.page.waitForResponse((response) => response.url().endsWith("/titles.json"));
    // As when the page gets visible again, because the next look may be half a minute away.
    await viewer.page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await (await answer).finished();
  };
  await viewer.during(async () => {
    await viewer.page.goto(server.url);
    await viewer.page.locator(".card").first().waitFor();
    await does(viewer, viewer.page, change);
    viewer.assertContent();
  });
}

const made = (name, more = {}) => ({ name, path: name.split("/").map(encodeURIComponent).join("/"), duration_seconds: 60, ...more });
/** A folder's titles: `Folder/Title 1` and so on. */
const series = (folder, amount, more) => [...Array(amount).keys()].map((at) => made(`${folder}/Title ${at + 1}`, more));
const rowNames = (page, key) => page.locator(`section[data-key="${key}"] h3`).allInnerTexts();

test("a list that changes keeps the focus, each row's place and the status", async () => {
  const titles = [...series("A", 30), ...series("B", 30)];
  await atShelfOf(titles, {}, async (viewer, page, change) => {
    const strip = page.locator('section[data-key="folder B"] .strip');
    await strip.evaluate((strip) => (strip.scrollLeft = 2000));
    const card = page.locator('section[data-key="folder B"] .card', { hasText: "Title 9" });
    await card.focus();
    const place = await strip.evaluate((strip) => strip.scrollLeft);
    assert.ok(place > 0);
    await page.evaluate(() => (window.said = document.querySelector("[role=status]")));
    await change([...titles, ...series("C", 2)]);
    await page.getByRole("link", { name: "C", exact: true }).waitFor();
    assert.equal(await focusedName(page), "Title 9");
    assert.ok(Math.abs((await strip.evaluate((strip) => strip.scrollLeft)) - place) <= 1);
    const status = () => page.evaluate(() => [window.said.isConnected, getComputedStyle(window.said).display]);
    assert.deepEqual(await status(), [true, "block"]);
    await page.fill("input[type=search]", "nowhere");
    await page.getByText("No title has that name.").waitFor();
    assert.deepEqual(await status(), [true, "block"]);
  });
});

test("rows are by name, a folder of one film is in the row above it, and only ingested titles are new", async () => {
  const films = [...Array(30).keys()].map((at) => made(`Films/Film ${at + 1} (1999)/Film ${at + 1}.mp4`, { file: "f" }));
  const ingested = [made("Alone/Old", { ingested_unix_seconds: 5 }), made("Loose", { ingested_unix_seconds: 6 })];
  await atShelfOf([...films.reverse(), ...ingested], {}, async (viewer, page) => {
    assert.deepEqual(await headings(page), ["New", "Films", "Without a folder"]);
    assert.deepEqual(await rowNames(page, "new"), ["Loose", "Old"]);
    assert.deepEqual((await rowNames(page, "folder Films")).slice(0, 3), ["Film 1", "Film 2", "Film 3"]);
    assert.deepEqual(await rowNames(page, "loose"), ["Loose", "Old"]);
    await page.getByRole("link", { name: "Films", exact: true }).click();
    await page.getByRole("heading", { name: "Films", exact: true }).waitFor();
    assert.equal(await page.locator("section.grid .amount").innerText(), "30");
  });
});

test("a folder has the focus and the page's title, and going back returns to the same place", async () => {
  await atShelfOf([...Array(30).keys()].flatMap((at) => series(`Series ${at + 1}`, 12)), {}, async (viewer, page) => {
    const heading = page.getByRole("link", { name: "Series 20", exact: true });
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight * 0.6));
    await heading.focus();
    const place = await page.evaluate(() => scrollY);
    await page.keyboard.press("Enter");
    await page.locator("section.grid").waitFor();
    await page.waitForFunction(() => document.activeElement.matches("section.grid h2"));
    assert.equal(await page.title(), "Series 20 · Fullbore");
    assert.equal(await page.evaluate(() => scrollY), 0);
    await page.keyboard.press("Escape");
    await page.waitForFunction((place) => Math.abs(scrollY - place) <= 1, place);
    await page.waitForFunction(() => document.activeElement.textContent === "Series 20");
    assert.equal(await page.title(), "Titles · Fullbore");
    await page.goto(`${server.url}-/watch/none`);
    await page.goBack();
    await page.waitForFunction((place) => Math.abs(scrollY - place) <= 1, place);
    // Opened by its address, the folder has nothing of this page before it.
    await page.goto("about:blank");
    await page.goto(`${server.url}#Series%203`);
    await page.getByRole("heading", { name: "Series 3", exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Series 1", exact: true }).waitFor();
    assert.equal(new URL(page.url()).hash, "");
  });
});

test("keys: those of an input method and a back key that is held do nothing, and arrows begin in the window", async () => {
  await atShelfOf([...Array(30).keys()].flatMap((at) => series(`Series ${at + 1}`, 12)), {}, async (viewer, page) => {
    const press = (key, more) =>
      page.evaluate(([key, more]) => {
        const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
        (document.activeElement ?? document.body).dispatchEvent(event);
        return event.defaultPrevented;
      }, [key, more]);
    // With nothing to go back from, the key is the browser's.
    assert.equal(await press("GoBack"), false);
    await page.fill("input[type=search]", "title 2");
    await page.getByRole("heading", { name: "Found" }).waitFor();
    for (const composing of [{ isComposing: true }, { keyCode: 229 }]) {
      await press("Escape", composing);
      await press("ArrowDown", composing);
    }
    assert.equal(await press("Escape", { repeat: true }), false);
    assert.equal(await page.inputValue("input[type=search]"), "title 2");
    assert.equal(await focusedName(page), "INPUT");
    assert.equal(await press("Escape"), true);
    assert.equal(await page.inputValue("input[type=search]"), "");
    await page.evaluate(() => (document.activeElement.blur(), scrollTo(0, document.documentElement.scrollHeight / 2)));
    await page.waitForFunction(() => !document.querySelector('section[data-key="folder Series 1"]'));
    await page.keyboard.press("ArrowDown");
    const [card, header] = await page.evaluate(() => {
      const both = [document.activeElement, document.querySelector("header")];
      return both.map((one) => one.getBoundingClientRect().toJSON());
    });
    assert.ok(card.top >= header.bottom && card.top < 800, JSON.stringify({ card, header }));
    assert.equal(await focusedName(page), "Title 1");
    // The buttons of a row are for the mouse and leave the focus where it is.
    await page.locator("section:has(:focus) .sideways").last().click();
    assert.equal(await focusedName(page), "Title 1");
    await page.locator(".top select").focus();
    const order = await page.locator(".top select").inputValue();
    await page.keyboard.press("ArrowRight");
    assert.equal(await page.locator(".top select").inputValue(), order);
  });
});

test("what one has watched in the meantime is shown when one comes back", async () => {
  await atShelfOf(series("A", 5), {}, async (viewer, page, change) => {
    assert.deepEqual(await headings(page), ["A"]);
    await page.evaluate((places) => localStorage.setItem("fullbore.places", places), having({ path: "A/Title 3" }).places);
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
    assert.deepEqual(await headings(page), ["Continue watching", "A"]);
    assert.deepEqual(await rowNames(page, "begun"), ["Title 3"]);
  });
});

test("names and facts have their own direction, and an unknown language is not named", async () => {
  const odd = made("أفلام/فيلم", { languages: ["", "und", "ar"], height: 720 });
  const long = made(`أفلام/${"x".repeat(120)}`);
  await atShelfOf([odd, long], {}, async (viewer, page) => {
    const card = page.locator(".card", { hasText: "فيلم" });
    assert.equal(await card.locator("h3").getAttribute("dir"), "auto");
    assert.equal(await card.locator("h3").getAttribute("title"), "فيلم");
    assert.deepEqual(await card.locator("bdi").allInnerTexts(), ["أفلام", "720p", "العربية"]);
    assert.equal(await page.locator("section.row h2").getAttribute("dir"), "auto");
    assert.ok(await page.locator(".card h3", { hasText: "xxx" }).evaluate((name) => name.scrollWidth <= name.clientWidth));
    await viewer.assertFaultless();
  });
});

/** By the width of a card and the screen's pixels; the whole poster only where there is no smaller one that is sharp. */
for (const [name, options, file] of [
  ["a desktop", {}, "poster-320.jpg"],
  ["a desktop with two pixels for each", { deviceScaleFactor: 2 }, "poster-640.jpg"],
  ["a phone", PHONE, "poster-320.jpg"],
  ["a desktop with three pixels for each", { deviceScaleFactor: 3 }, "poster.jpg"],
]) {
  test(`posters are fetched in the size that is needed: ${name}`, async () => {
    const titles = series("A, b", 3, { poster: "A%2C%20b/v/poster.jpg", poster_widths: [320, 640, 1920] });
    const old = made("Old", { poster: "Old/v/poster.jpg" });
    await atShelfOf([...titles, old], options, async (viewer, page) => {
      await page.waitForFunction(() => document.images.length === 4 && [...document.images].every(({ complete, currentSrc }) => complete && currentSrc));
      const sources = await page.evaluate(() => [...document.images].map(({ currentSrc }) => new URL(currentSrc).pathname));
      assert.deepEqual([...new Set(sources)].sort(), [`/A%2C%20b/v/${file}`, "/Old/v/poster.jpg"]);
    });
  });
}

test("the shelf opens in a browser whose language has no standard name", async () => {
  const viewer = await Viewer.arrive({});
  await viewer.context.addInitScript(() => Object.defineProperty(navigator, "languages", { get: () => ["en-US@posix"] }));
  await viewer.during(async () => {
    await viewer.page.goto(server.url);
    await viewer.page.locator(".card").first().waitFor();
    viewer.assertContent();
  });
});

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
