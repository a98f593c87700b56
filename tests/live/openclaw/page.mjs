// Drives the original's page in headless Chromium: sends a message, then looks at tabs. Prints one JSON object.
// usage: OPENCLAW_NODE_MODULES=DIR CHROMIUM=PATH node page.mjs 'http://127.0.0.1:PORT' TOKEN 'message' 'expected reply' /tab ...
import { createRequire } from 'node:module';
const require = createRequire(process.env.OPENCLAW_NODE_MODULES + '/');
const { chromium } = require('playwright-core');
const [base, token, message, expected, ...tabs] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM, headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update'],
});
const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
const found = { errors: [], tabs: {}, reply: false, stuck: true };
page.on('pageerror', e => found.errors.push(String(e).slice(0, 300)));
page.on('console', m => { if (/Content Security Policy/.test(m.text())) found.errors.push(m.text().slice(0, 300)); });
try {
  await page.goto(`${base}/#token=${token}`, { waitUntil: 'load', timeout: 90000 });
  const box = page.locator('textarea[placeholder]').first();
  await box.click({ timeout: 60000 });
  await box.fill(message);
  await page.keyboard.press('Enter');
  await page.waitForFunction(t => document.body.innerText.includes(t), expected, { timeout: 60000 });
  found.reply = true;
  await page.waitForFunction(() => !/Sending message/.test(document.body.innerText), undefined, { timeout: 30000 });
  found.stuck = false;
  for (const tab of tabs) {
    await page.evaluate(t => { history.pushState({}, '', t); dispatchEvent(new PopStateEvent('popstate')); }, tab);
    await page.waitForTimeout(5000);
    found.tabs[tab] = await page.evaluate(() => ({
      text: document.body.innerText.slice(0, 3000),
      banners: [...document.querySelectorAll('[role=alert], .callout.danger, [class*=error]')]
        .filter(e => e.offsetParent).map(e => e.innerText.slice(0, 200)).filter(Boolean),
    }));
  }
} catch (e) { found.errors.push(String(e).slice(0, 500)); }
await browser.close();
console.log(JSON.stringify(found));
