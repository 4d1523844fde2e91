import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';

import type { ServerName } from '../test/servers/catalogue.ts';
import type { EnsureOptions } from '../test/servers/ensure.ts';
import { type BuildsOptions, Builds, estimate } from './builds.ts';
import { Keys, type KeyInput } from './keys.ts';
import { Screen } from './screen.ts';

const NEVER = new AbortController().signal;

/** Takes the place of the functions that build servers. A build ends when the test calls `end`. */
class Workshop {
  /** The builds that have begun or were stopped, in this order. */
  readonly log: string[] = [];
  readonly #ends = new Map<ServerName, () => void>();
  readonly servers: NonNullable<BuildsOptions['servers']>;

  constructor(existing: readonly ServerName[] = []) {
    this.servers = {
      find: (name) => (existing.includes(name) ? `/bin/${name}` : undefined),
      ensure: async (name, options) => await this.#build(name, options),
    };
  }

  end(name: ServerName): void {
    this.#ends.get(name)?.();
  }

  /** Waits until the build of a server has begun. */
  async begun(name: ServerName): Promise<void> {
    while (!this.#ends.has(name)) await new Promise(setImmediate);
  }

  async #build(name: ServerName, { signal, onBuild, lowPriority }: EnsureOptions = {}): Promise<string> {
    signal?.throwIfAborted();
    this.log.push(`${name}${lowPriority === true ? ' at low priority' : ''}`);
    onBuild?.();
    await new Promise<void>((resolve, reject) => {
      this.#ends.set(name, resolve);
      signal?.addEventListener('abort', () => {
        this.log.push(`${name} ended`);
        reject(new Error('ended'));
      });
    });
    return name;
  }
}

/** A screen that prints nothing. It keeps the labels of the progress bars. */
function quietScreen(): { readonly bars: string[]; readonly screen: BuildsOptions['screen'] } {
  const bars: string[] = [];
  return { bars, screen: { bar: (label) => bars.push(label), progress: () => undefined } };
}

describe('the estimated time of builds', () => {
  it('before any server is built, the estimated time of the builds is their usual time', () => {
    const builds = [
      { usual: 30, elapsed: 15, isBuilt: false },
      { usual: 270, elapsed: undefined, isBuilt: false },
    ];
    assert.deepEqual(estimate(builds), { fraction: 15 / 300, secondsLeft: 285 });
  });

  it('after a server is built, the estimated time of the other builds follows the speed of this machine', () => {
    const builds = [
      { usual: 30, elapsed: 60, isBuilt: true },
      { usual: 270, elapsed: 0, isBuilt: false },
    ];
    assert.deepEqual(estimate(builds), { fraction: 60 / 600, secondsLeft: 540 });
  });

  it('while a build takes longer than usual, its estimated time stays above zero', () => {
    const { fraction, secondsLeft } = estimate([{ usual: 30, elapsed: 300, isBuilt: false }]);
    assert.ok(fraction < 0.95, String(fraction));
    assert.ok(secondsLeft > 20, String(secondsLeft));
  });
});

describe('the builds of the demo', () => {
  it('the demo begins when etcd and kube-apiserver are built, and later builds run at low priority', async () => {
    const { screen, bars } = quietScreen();
    const workshop = new Workshop();
    await using builds = new Builds({ screen, signal: NEVER, servers: workshop.servers });
    const ready = builds.ready(['etcd', 'kube-apiserver'], NEVER);
    builds.start(['vault', 'kube-controller-manager'], { lowPriority: true });
    while (bars.length === 0) await new Promise(setImmediate);
    workshop.end('etcd');
    await workshop.begun('kube-apiserver');
    workshop.end('kube-apiserver');
    await ready;
    await workshop.begun('vault');
    assert.deepEqual(workshop.log, ['etcd', 'kube-apiserver', 'vault at low priority']);
    assert.match(bars[0] ?? '', /^building etcd v/);
  });

  it('the demo does not build a server that already exists', async () => {
    const workshop = new Workshop(['etcd', 'kube-apiserver', 'vault']);
    await using builds = new Builds({ screen: quietScreen().screen, signal: NEVER, servers: workshop.servers });
    await builds.ready(['etcd', 'kube-apiserver'], NEVER);
    assert.equal(await builds.finished('vault'), true);
    assert.equal(await builds.finished('kube-controller-manager'), false, 'nobody builds it');
    assert.deepEqual(workshop.log, []);
  });

  it('if a part of the demo is skipped, the build of its server stops, and the build for the next part begins', async () => {
    const workshop = new Workshop();
    await using builds = new Builds({ screen: quietScreen().screen, signal: NEVER, servers: workshop.servers });
    builds.start(['external-secrets', 'vault'], { lowPriority: true });
    await workshop.begun('external-secrets');
    const skip = new AbortController();
    const ready = builds.ready(['external-secrets'], skip.signal);
    skip.abort();
    await assert.rejects(ready, { name: 'AbortError' });
    builds.dropAllBut(new Set(['vault']));
    await workshop.begun('vault');
    assert.deepEqual(workshop.log, [
      'external-secrets at low priority',
      'external-secrets ended',
      'vault at low priority',
    ]);
  });

  it('if a build fails, the part that needs the server fails, and the next build begins', async () => {
    const workshop = new Workshop();
    const failing: typeof workshop.servers = {
      ...workshop.servers,
      ensure: async (name, options) => {
        if (name === 'vault') throw new Error('the disk is full');
        return await workshop.servers.ensure(name, options);
      },
    };
    await using builds = new Builds({ screen: quietScreen().screen, signal: NEVER, servers: failing });
    builds.start(['vault', 'external-secrets'], { lowPriority: true });
    await assert.rejects(builds.ready(['vault'], NEVER), /the disk is full/);
    await workshop.begun('external-secrets');
  });
});

describe('the progress bar of a build', () => {
  function screenOf(isTTY: boolean): { readonly screen: Screen; readonly text: () => string } {
    const out = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY, columns: 120 });
    let text = '';
    out.on('data', (part: string) => (text += part));
    return { screen: new Screen({ out, env: { NO_COLOR: '1' } }), text: () => text };
  }
  const states = [0, 0.01, 0.1, 0.26, 0.3, 0.51].map((fraction) => ({ fraction, secondsLeft: 300 * (1 - fraction) }));

  it('in a log, the progress bar prints one line for each quarter of the build', async () => {
    const { screen, text } = screenOf(false);
    for (const state of states) screen.bar('building vault v1.13.0', state);
    await new Promise(setImmediate);
    assert.equal(
      text(),
      [
        '  … building vault v1.13.0: 0 %, about 5 min left\n',
        '  … building vault v1.13.0: 26 %, about 4 min left\n',
        '  … building vault v1.13.0: 51 %, about 2 min left\n',
      ].join(''),
    );
  });

  it('on a terminal, a progress bar replaces the one before it, and says which key skips the part', async () => {
    const { screen, text } = screenOf(true);
    screen.bar('building vault v1.13.0', { fraction: 0.5, secondsLeft: 60, hint: 's skips this part' });
    await new Promise(setImmediate);
    const bar = '██████████░░░░░░░░░░';
    assert.equal(text(), `\r\x1b[K  … ${bar} 50 %, about 60 s left: building vault v1.13.0 (s skips this part)`);
  });
});

describe('the keys of the demo', () => {
  function terminal(isTTY: boolean): KeyInput & PassThrough & { readonly modes: boolean[] } {
    const modes: boolean[] = [];
    const input = Object.assign(new PassThrough(), { isTTY, modes, setRawMode: (mode: boolean) => modes.push(mode) });
    return input as unknown as ReturnType<typeof terminal>;
  }

  it('the key s skips the part that the demo shows now, and not the next part', async () => {
    const input = terminal(true);
    using keys = new Keys(input, { enabled: true, stop: () => undefined });
    const first = keys.nextPart();
    const skipped = once(first, 'abort');
    input.write('xs');
    await skipped;
    assert.equal(keys.nextPart().aborted, false);
    assert.equal(keys.hint, 's skips this part');
  });

  it('Enter ends the wait before a section, and another key does not', async () => {
    const input = terminal(true);
    using keys = new Keys(input, { enabled: true, stop: () => undefined });
    const hints: string[] = [];
    let hasEnded = false;
    const wait = keys.enter({ progress: (text) => hints.push(text) }, keys.nextPart()).then(() => (hasEnded = true));
    input.write('x');
    await new Promise(setImmediate);
    assert.equal(hasEnded, false);
    input.write('\r');
    await wait;
    assert.deepEqual(hints, ['Enter goes on, s skips this part']);
  });

  it('s ends the wait before a section with an error, because the part is skipped', async () => {
    const input = terminal(true);
    using keys = new Keys(input, { enabled: true, stop: () => undefined });
    const wait = keys.enter({ progress: () => undefined }, keys.nextPart());
    input.write('s');
    await assert.rejects(wait);
  });

  it('without a terminal, the demo does not wait for Enter', async () => {
    using keys = new Keys(terminal(false), { enabled: true, stop: () => undefined });
    await keys.enter({ progress: () => assert.fail('it waits') }, NEVER);
  });

  it('Ctrl-C stops the demo, and the terminal no longer is in raw mode', async () => {
    const input = terminal(true);
    let stopped = 0;
    {
      using keys = new Keys(input, { enabled: true, stop: () => (stopped += 1) });
      keys.nextPart();
      input.write('\u0003');
      await new Promise(setImmediate);
    }
    assert.equal(stopped, 1);
    assert.deepEqual(input.modes, [true, false]);
  });

  it('the demo reads no keys if the input is not a terminal, or if reading keys is not enabled', () => {
    for (const [isTTY, enabled] of [
      [false, true],
      [true, false],
    ] as const) {
      const input = terminal(isTTY);
      using keys = new Keys(input, { enabled, stop: () => undefined });
      assert.equal(keys.hint, '');
      assert.deepEqual(input.modes, []);
    }
  });
});
