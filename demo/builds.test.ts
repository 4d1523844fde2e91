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

/** Builds that end when the test says so. */
class Workshop {
  /** What happened, in order. */
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

  /** Waits until a build has begun. */
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

/** A screen whose bars are kept. */
function quietScreen(): { readonly bars: string[]; readonly screen: BuildsOptions['screen'] } {
  const bars: string[] = [];
  return { bars, screen: { bar: (label) => bars.push(label), progress: () => undefined } };
}

describe('the estimate', () => {
  it('is the usual time before the first build has ended', () => {
    const builds = [
      { usual: 30, elapsed: 15, isBuilt: false },
      { usual: 270, elapsed: undefined, isBuilt: false },
    ];
    assert.deepEqual(estimate(builds), { fraction: 15 / 300, secondsLeft: 285 });
  });

  it('follows the pace of the machine', () => {
    const builds = [
      { usual: 30, elapsed: 60, isBuilt: true },
      { usual: 270, elapsed: 0, isBuilt: false },
    ];
    assert.deepEqual(estimate(builds), { fraction: 60 / 600, secondsLeft: 540 });
  });

  it('never says that a build which goes on has ended', () => {
    const { fraction, secondsLeft } = estimate([{ usual: 30, elapsed: 300, isBuilt: false }]);
    assert.ok(fraction < 0.95, String(fraction));
    assert.ok(secondsLeft > 20, String(secondsLeft));
  });
});

describe('the builds of the demo', () => {
  it('need only etcd and kube-apiserver before the first copies', async () => {
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

  it('leave out servers that exist', async () => {
    const workshop = new Workshop(['etcd', 'kube-apiserver', 'vault']);
    await using builds = new Builds({ screen: quietScreen().screen, signal: NEVER, servers: workshop.servers });
    await builds.ready(['etcd', 'kube-apiserver'], NEVER);
    assert.equal(await builds.finished('vault'), true);
    assert.equal(await builds.finished('kube-controller-manager'), false, 'nobody builds it');
    assert.deepEqual(workshop.log, []);
  });

  it('end when the part that needs them is skipped', async () => {
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

  it('tell the part whose server cannot be built, and go on with the next server', async () => {
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

describe('the bar', () => {
  function screenOf(isTTY: boolean): { readonly screen: Screen; readonly text: () => string } {
    const out = Object.assign(new PassThrough({ encoding: 'utf8' }), { isTTY, columns: 120 });
    let text = '';
    out.on('data', (part: string) => (text += part));
    return { screen: new Screen({ out, env: { NO_COLOR: '1' } }), text: () => text };
  }
  const states = [0, 0.01, 0.1, 0.26, 0.3, 0.51].map((fraction) => ({ fraction, secondsLeft: 300 * (1 - fraction) }));

  it('is a line for each quarter in a log', async () => {
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

  it('is drawn in its place on a terminal, with what the reader can do', async () => {
    const { screen, text } = screenOf(true);
    screen.bar('building vault v1.13.0', { fraction: 0.5, secondsLeft: 60, hint: 's skips this part' });
    await new Promise(setImmediate);
    const bar = '██████████░░░░░░░░░░';
    assert.equal(text(), `\r\x1b[K  … ${bar} 50 %, about 60 s left: building vault v1.13.0 (s skips this part)`);
  });
});

describe('the keys', () => {
  function terminal(isTTY: boolean): KeyInput & PassThrough & { readonly modes: boolean[] } {
    const modes: boolean[] = [];
    const input = Object.assign(new PassThrough(), { isTTY, modes, setRawMode: (mode: boolean) => modes.push(mode) });
    return input as unknown as ReturnType<typeof terminal>;
  }

  it('skip the part that is shown, and not the next one', async () => {
    const input = terminal(true);
    using keys = new Keys(input, { enabled: true, stop: () => undefined });
    const first = keys.nextPart();
    const skipped = once(first, 'abort');
    input.write('xs');
    await skipped;
    assert.equal(keys.nextPart().aborted, false);
    assert.equal(keys.hint, 's skips this part');
  });

  it('stop the demo by Ctrl-C, and leave the terminal as it was', async () => {
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

  it('are not read where there is no terminal', () => {
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
