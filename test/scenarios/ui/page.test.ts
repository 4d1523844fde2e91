/** The page of `keyferry ui` in Debian's Chromium: every view, live changes, forged names, other pages, and files. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFile, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { proxied } from '../../servers/proxied.ts';
import { Browser, type Tab, WITHOUT_BROWSER } from '../../support/browser.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from '../cli/objects.ts';
import { runProgram } from '../cli/program.ts';
import { openPage, type RunningPage, startPage, TENANT, tenantKubeconfig } from './program.ts';

const require = createRequire(import.meta.url);
const PHONE = { width: 390, height: 800 };
const VIEWS = [
  '#map',
  '#map/q=team&order=alike',
  '#map/state=bad',
  '#problems',
  '#table',
  '#plan',
  '#o/SecretMirror/default/one',
  '#o/Secret/default/one',
  '#o/Secret/team-a/one',
  '#o/Secret/nowhere/nothing',
  '#ns/team-a',
  '#ns/nowhere',
];
/** What an author of an object can write into fields that the API server does not check. */
const FORGED = `<img src=x onerror="document.title='owned'">\u202Eevil\u0007`;
const LONG = 'n'.repeat(253);

describe('the page of keyferry ui', { skip: WITHOUT_BROWSER }, () => {
  const resources = new AsyncDisposableStack();
  let plane: ControlPlane;
  let page: RunningPage;
  let browser: Browser;
  let tab: Tab;

  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true, users: [{ name: TENANT }] });
    resources.defer(() => plane.stop());
    await plane.api.createMany(['team-a', 'team-b', 'team-c', 'constructor', 'closed'].map((name) => namespace(name)));
    await plane.api.patch('/api/v1/namespaces/closed', {
      metadata: { annotations: { 'keyferry.dev/accept-from': '' } },
    });
    await plane.api.create(secret('default', 'one', 'the-value'));
    await plane.api.create(secret('team-b', 'one', 'of a user'));
    await plane.api.create(mirror('one', 'one', ['team-.+', 'closed']));
    await plane.api.create(mirror('constructor', 'one', ['constructor']));
    await plane.api.create(mirror('waits', 'missing', ['team-.+']));
    await plane.api.create(mirror(LONG, 'one', ['team-c'], { destination: { namespaces: ['team-c'], name: LONG } }));
    await plane.api.create(
      secret('team-c', 'forged', 'x', {
        metadata: { name: 'forged', namespace: 'team-c', annotations: { 'k8s-replicator/replicate-from': FORGED } },
      }),
    );
    const keyferry = resources.use(await Keyferry.start({ kubeconfig: plane.kubeconfigPath }));
    await keyferry.ready();
    const copy = `/api/v1/namespaces/constructor/secrets/one`;
    await waitFor(async () => await plane.api.find(copy), { message: 'the copies' });
    page = resources.use(await startPage(plane.kubeconfigPath));
    browser = resources.use(await Browser.start());
    tab = await openPage(browser, page);
  });
  after(() => resources.disposeAsync());

  it('the overview counts the copies, names the worst problem with the person who ends it, and links every rule', async () => {
    await tab.go('#map');
    await tab.sees(/1 not made/);
    const text = await tab.text();
    assert.match(text, /3 waiting/);
    assert.match(text, /SecretMirror default\/one — 1 copy is not made: the object belongs to another owner/);
    assert.match(text, /The owner of what the message names: /);
    assert.match(text, /by name ⇄/);
    const links = (await tab.eval(
      `[...document.querySelectorAll('.line a.name')].map((one) => one.textContent)`,
    )) as string[];
    for (const name of ['one', 'constructor', 'waits', 'forged', LONG])
      assert.ok(
        links.some((text) => text.startsWith(name)),
        name,
      );
  });

  it('the code leaves the address, and another tab has the token, too, and both are live', async () => {
    assert.equal(await tab.eval('location.href'), `${page.origin}/#map`);
    const other = await browser.open(`${page.origin}/#problems`);
    await other.sees(/● live/);
    await other.sees(/\d problems/);
    await plane.api.create(mirror('both', 'absent', ['team-a']));
    await other.sees(/SecretMirror default\/both — 1 copy waits/);
    await tab.sees(/4 waiting/);
    await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/both');
    await tab.sees(/3 waiting/);
    await other.close();
  });

  it('every view is copied as Markdown, in which no text of a user is markup', async () => {
    const own = await browser.open(`${page.origin}/#map`);
    await own.sees(/● live/);
    await own.eval(
      `Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => void (window.copied = text) } })`,
    );
    const copied = async (view: string, seen: RegExp): Promise<string> => {
      await own.go(view);
      await own.sees(seen);
      await own.click('header button');
      return (await own.eval('window.copied')) as string;
    };
    const overview = await copied('#map', /by name ⇄/);
    assert.match(overview, /^Keyferry, \S+, 20\S+Z\n/);
    assert.match(overview, /1 not made/);
    assert.match(overview, /\n- ✕ ?SecretMirror default\/one — 1 copy is not made/);
    assert.match(await copied('#problems', /problems/), /SecretMirror default\/waits — 3 copies wait/);
    assert.match(
      await copied('#ns/team-a', /Comes in/),
      /\n\| Rule \| Source \| Into \| Copy \| State \| Why \|\n\|---\|---\|/,
    );
    assert.match(
      await copied('#o/SecretMirror/default/one', /In a terminal/),
      /\n {2}- ✕ SecretMirror of default one /,
    );
    const forged = await copied('#o/Secret/team-c/forged', /<img src=x/);
    assert.ok(forged.includes(String.raw`\<img src=x onerror=`), forged);
    assert.ok(forged.includes(String.raw`\>‹U+202E›evil`), forged);
    await own.go('#plan');
    await own.eval(
      `document.querySelector('textarea').value = ${JSON.stringify(JSON.stringify(mirror('planned', 'one', ['team-a'], { destination: { namespaces: ['team-a'], name: 'new' } })))}`,
    );
    await own.click('.plan p button');
    await own.sees(/1 copy would change/);
    assert.match(
      await copied('#plan', /1 copy would change/),
      /\| create \| Secret new \| team-a \| SecretMirror default\/planned \|/,
    );
    await own.close();
  });

  it('with rights in one namespace alone, the page shows its rules, and says what is not permitted', async () => {
    await using limited = await startPage(await tenantKubeconfig(plane), '-n', 'default', '--controllers=mirrors');
    const own = await openPage(browser, limited);
    await own.sees(/may read are included: default \(no permission to list and watch /);
    await own.sees(/namespaces not known/);
    await own.go('#ns/default');
    await own.sees(/Not permitted: the namespaces could not be read/);
    await own.close();
  });

  it('a search keeps the matching rules and namespaces, says what it hides, and Escape ends it', async () => {
    await tab.go('#map');
    await tab.press('/');
    await tab.type('team-a');
    await tab.sees(/Shows 2 of \d+ rules and 1 of \d+ namespaces: “team-a”/);
    assert.equal(await tab.eval('location.hash'), '#map/q=team-a');
    await tab.press('Escape');
    await tab.sees(/copies up to date/);
    assert.doesNotMatch(await tab.text(), /Shows \d/);
    await tab.go('#map/q=team-a');
    await tab.sees(/Shows 2 of/);
    await tab.eval(`document.querySelector('.scroll').focus()`);
    await tab.press('Escape');
    await tab.sees(/copies up to date/);
    assert.doesNotMatch(await tab.text(), /Shows \d/);
    await tab.go(`#map/q=${encodeURIComponent('no such thing')}`);
    await tab.sees(/Nothing matches “no such thing”\. Show all/);
  });

  it('a long table says how many lines it has, and shows more', async () => {
    await tab.go('#table/lines=2');
    await tab.sees(/\n2 of \d+ Show more/);
    assert.equal(await tab.eval(`document.querySelectorAll('main tbody tr').length`), 2);
    await tab.click('main p a');
    await tab.sees(/\n8 of \d+/);
    assert.equal(await tab.eval(`document.querySelectorAll('main tbody tr').length`), 8);
  });

  it('the map works with the keyboard: arrows read the copies, Enter opens one', async () => {
    await tab.go('#map/q=Conflict');
    await tab.sees(/Shows 1 of/);
    await tab.eval(`document.querySelector('.scroll').focus()`);
    await tab.press('ArrowDown');
    await tab.press('End');
    await tab.press('ArrowLeft');
    await tab.sees(/SecretMirror default\/one in team-b: not made \(Conflict: /);
    await tab.press('Enter');
    await tab.sees(/Secret team-b\/one\n/);
    assert.equal(await tab.eval('location.hash'), '#o/Secret/team-b/one');
  });

  it('a rule, its source and its copy have a trace from the source to the copies', async () => {
    const cards = async (hash: string): Promise<string[]> => {
      await tab.go(hash);
      await tab.sees(/In a terminal/);
      return (await tab.eval(
        `[...document.querySelectorAll('.trace .card')].map((one) => one.innerText.replaceAll('\\n', ' '))`,
      )) as string[];
    };
    const ofRule = await cards('#o/SecretMirror/default/waits');
    assert.deepEqual(ofRule, [
      'Secret in default missing the source',
      '‖ SecretMirror of default waits into team-.+',
      '‖ waiting 3 copies NoSecret: team-a, team-b and 1 more',
    ]);
    const ofCopy = await cards('#o/Secret/team-a/one');
    assert.equal(ofCopy[0], 'Secret in default one the source');
    assert.ok(ofCopy.includes('✓ Secret in team-a one'), ofCopy.join('\n'));
    assert.equal(
      (await cards('#o/Secret/default/one')).filter((card) => / SecretMirror of default /.test(card)).length,
      3,
    );
  });

  it('a namespace says what comes in, what goes out, and who may copy into it', async () => {
    await tab.go('#ns/closed');
    await tab.sees(/Only its own rules may copy into this namespace: its consent is empty/);
    assert.match(await tab.text(), /⊘ not allowed/);
    await tab.go('#ns/team-a');
    await tab.sees(/Rules of every namespace may copy into this one/);
    await tab.go('#ns/default');
    await tab.sees(/Goes out by 4 rules/);
    await tab.go('#ns/nowhere');
    await tab.sees(/does not exist/);
  });

  it('a change is on the page within seconds, and focus and scroll stay', async () => {
    await tab.go('#ns/default');
    await tab.sees(/Goes out by 4 rules/);
    await tab.eval(`document.querySelector('main td a').focus()`);
    const focused = (await tab.eval('document.activeElement.href')) as string;
    const begun = performance.now();
    await plane.api.create(
      mirror('a-new', 'one', ['team-a'], { destination: { namespaces: ['team-a'], name: 'new' } }),
    );
    await tab.sees(/Goes out by 5 rules/);
    const seconds = (performance.now() - begun) / 1000;
    assert.ok(seconds < 10, `${seconds} s`);
    assert.equal(await tab.eval('document.activeElement.href'), focused);
    await plane.api.delete('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/a-new');
    await tab.sees(/Goes out by 4 rules/);
  });

  it('a plan shows what manifests would change, and its input stays while the data change', async () => {
    await tab.go('#plan');
    await tab.sees(/Nothing is written/);
    const manifest = JSON.stringify(mirror('one', 'one', ['team-b']));
    await tab.eval(`document.querySelector('textarea').value = ${JSON.stringify(manifest)}`);
    await tab.click('.plan button');
    await tab.sees(/Data of 2 copies would be lost/);
    assert.match(await tab.text(), /✕ delete\tSecret one\tteam-a/);
    await tab.eval(`document.querySelector('textarea').value = 'kind: ['`);
    await tab.click('.plan button');
    await tab.sees(/✕ .*standard input|✕ .*stdin|✕ /);
  });

  it('texts of users are texts: nothing runs, unseen characters are spelled out, and names of fields are names', async () => {
    await tab.go('#o/Secret/team-c/forged');
    await tab.sees(/<img src=x onerror/);
    assert.match(await tab.text(), /‹U\+202E›/);
    assert.equal(await tab.eval(`document.querySelectorAll('img').length`), 0);
    await tab.go('#o/SecretMirror/default/constructor');
    await tab.sees(/The rule is ready\. 1 copy\./);
    for (const name of [
      '__proto__',
      'constructor',
      'hasOwnProperty',
      '<img src=x onerror=alert(1)>',
      '%E0%A4%A',
      '%',
    ]) {
      for (const hash of [
        `#ns/${name}`,
        `#o/${name}/${name}/${name}`,
        `#map/q=${name}&state=${name}&open=${name}`,
        `#${name}`,
      ]) {
        await tab.go(hash);
        await tab.sees(/● live/);
      }
    }
    assert.notEqual(await tab.eval('document.title'), 'owned');
  });

  for (const [name, size, scheme] of rowsOf([
    ['light', undefined, 'light'],
    ['dark', undefined, 'dark'],
    ['on a phone', PHONE, 'light'],
  ] as const)) {
    it(`axe finds nothing in any view: ${name}`, async () => {
      const source = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
      const own = await browser.open(`${page.origin}/#map`, size, scheme);
      await own.sees(/● live/);
      await own.eval(`${source}; undefined`);
      for (const view of VIEWS) {
        await own.go(view);
        await own.frame();
        const found = (await own.eval(
          `axe.run(document).then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')))`,
        )) as string[];
        assert.deepEqual(found, [], view);
        const isWide = await own.eval('document.documentElement.scrollWidth > innerWidth');
        assert.equal(isWide, false, `${view} is wider than the window`);
      }
      assert.deepEqual(own.complaints, []);
      await own.close();
    });
  }

  it('the page of another port reads nothing: by fetch, script, style, frame, image, form or window', async () => {
    const attack = `<!doctype html><body><script>
      const results = [];
      const note = (name) => (value) => results.push(name + ': ' + value);
      const at = (path) => ${JSON.stringify(page.origin)} + path;
      const run = async () => {
        for (const path of ['/', '/data', '/page.js']) {
          await fetch(at(path)).then((one) => one.text()).then(note('read ' + path), () => {});
          await fetch(at(path), { mode: 'no-cors', credentials: 'include' }).then((one) => one.text()).then((text) => text && note('opaque ' + path)(text), () => {});
        }
        await fetch(at('/session'), { method: 'POST', mode: 'no-cors', body: '{"code":"x"}' }).then((one) => one.text()).then((text) => text && note('session')(text), () => {});
        for (const [tag, field] of [['script', 'src'], ['img', 'src'], ['iframe', 'src']]) {
          const one = document.createElement(tag);
          await new Promise((resolve) => {
            one.onload = () => { try { const inside = one.contentDocument?.body?.textContent; if (tag !== 'iframe' || inside) note(tag)(inside ?? 'loaded'); } catch {} resolve(); };
            one.onerror = resolve;
            one[field] = at(tag === 'iframe' ? '/' : '/page.js');
            document.body.append(one);
          });
        }
        if (localStorage.length > 0) note('storage')(JSON.stringify({ ...localStorage }));
        document.title = 'done ' + JSON.stringify(results);
      };
      run();
    </script></body>`;
    const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(attack));
    server.listen(0, '127.0.0.1');
    try {
      await waitFor(() => server.listening, { message: 'the other server' });
      const { port } = server.address() as AddressInfo;
      const other = await browser.open(`http://127.0.0.1:${port}/`);
      let title = '';
      await waitFor(async () => (title = (await other.eval('document.title')) as string).startsWith('done'), {
        message: () => title,
      });
      assert.deepEqual(JSON.parse(title.slice(5)), []);
      await other.close();
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it('nothing was asked from anywhere but this server, and the console has no complaint', () => {
    assert.deepEqual(
      tab.requests.filter((url) => !url.startsWith(page.origin)),
      [],
    );
    // The browser itself reports that the server refused the wrong manifest.
    assert.deepEqual(
      tab.complaints.filter((text) => !/status of 422 .*\/plan$/.test(text)),
      [],
    );
  });

  it('a lost cluster is said with the error while the old state stays, and its return, too', async () => {
    const { proxy, kubeconfig } = await proxied(plane);
    resources.defer(() => proxy.stop());
    await using other = await startPage(kubeconfig);
    const own = await openPage(browser, other);
    await proxy.refuse();
    await own.sees(/✕ not connected since/);
    assert.match(await own.text(), /The page shows the state of/);
    assert.match(await own.text(), /SecretMirror default\/one/);
    await proxy.accept();
    await own.sees(/● live/);
    await own.close();
  });

  it('when the command ends, the page says so', async () => {
    const other = await startPage(plane.kubeconfigPath);
    const own = await openPage(browser, other);
    await other.program.interrupt();
    await own.sees(/keyferry ui does not answer/);
    assert.match(await own.text(), /SecretMirror default\/one/);
    await own.close();
    await other[Symbol.asyncDispose]();
  });

  it('--out writes the page into a file that only its owner may read, and that needs no network', async () => {
    const file = path.join(plane.folder, 'report.html');
    const { code, stdout, stderr } = await runProgram(['ui', '--kubeconfig', plane.kubeconfigPath, '--out', file]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /It has no values/);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const own = await browser.open(`file://${file}#o/SecretMirror/default/one`);
    await own.sees(/The rule is not ready\. 1 of 3 copies/);
    assert.match(await own.text(), /report of \d{4}-/);
    await own.go('#plan');
    await own.sees(/A report has no server that could plan/);
    await own.go('#map');
    await own.sees(/by name ⇄/);
    assert.deepEqual([own.complaints, own.requests.filter((url) => !url.startsWith('file:'))], [[], []]);
    assert.doesNotMatch(dataIn(await readFile(file, 'utf8')), /the-value|dGhlLXZhbHVl/);
    await own.close();
  });

  it('--redact leaves no name, message, host or pattern in the file', async () => {
    const file = path.join(plane.folder, 'redacted.html');
    const { code, stderr } = await runProgram(['ui', '--kubeconfig', plane.kubeconfigPath, '--out', file, '--redact']);
    assert.equal(code, 0, stderr);
    const data = dataIn(await readFile(file, 'utf8'));
    for (const word of [
      'team-',
      'closed',
      '"one"',
      '/one',
      'constructor',
      'forged',
      'img',
      LONG,
      'missing',
      new URL(plane.url).host,
      'default/',
      '"default"',
    ])
      assert.ok(!data.includes(word), word);
    const own = await browser.open(`file://${file}`);
    await own.sees(/1 not made/);
    await own.sees(/SecretMirror namespace-\w+\/name-\w+ — 1 copy is not made/);
    await own.close();
  });
});

/** The data in a report. */
function dataIn(html: string): string {
  const [, packed = ''] = /id="data">([^<]*)</.exec(html) ?? [];
  return gunzipSync(Buffer.from(packed, 'base64')).toString();
}
