import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { findControllerCommand } from '../commands.ts';
import type { LimitsConfig } from '../config.ts';
import { limitsInForce } from './limit-flags.ts';

function limits(argv: readonly string[], env: Record<string, string> = {}): LimitsConfig {
  const [name = '', ...flags] = argv;
  const config = findControllerCommand(name)?.configure(flags, { env, hostname: 'h', uniqueId: 'u' });
  assert.ok(config);
  return config.limits;
}

const NONE: LimitsConfig = {
  sourceNamespaces: undefined,
  destinationNamespaces: undefined,
  excludedNamespaces: undefined,
  requireConsent: false,
  replicatorPush: true,
  reflectorPush: true,
  adoptOrphans: false,
  mittwaldPush: true,
};

describe('the limits of an administrator', () => {
  it('without flags and variables, rules have no limits', () => {
    for (const name of ['run', 'mirrors', 'replicator', 'generator']) assert.deepEqual(limits([name]), NONE, name);
  });

  it('the flag of a limit accepts patterns, as a list or repeated, or one label selector', () => {
    const flags = [
      '--source-namespaces=a, b-.*',
      '--source-namespaces',
      'c',
      '--excluded-namespaces=selector:x in (y,z)',
    ];
    assert.deepEqual(limits(['run', ...flags, '--require-consent', '--replicator-push=false']), {
      ...NONE,
      sourceNamespaces: { patterns: ['a', 'b-.*', 'c'] },
      excludedNamespaces: { selector: 'x in (y,z)' },
      requireConsent: true,
      replicatorPush: false,
    });
  });

  it('a variable of the environment sets a limit whose flag is not given', () => {
    const env = { KEYFERRY_DESTINATION_NAMESPACES: 'selector:a', KEYFERRY_REQUIRE_CONSENT: 'true' };
    const found = limits(['replicator', '--require-consent=false'], { ...env, KEYFERRY_REPLICATOR_PUSH: 'false' });
    const expected = { destinationNamespaces: { selector: 'a' }, requireConsent: false, replicatorPush: false };
    assert.deepEqual(found, { ...NONE, ...expected });
  });

  it('a limit accepts patterns with classes, groups, counts and flags, which can match a namespace', () => {
    const patterns = ['kube-.*', 'team-[a-z]*', 'a(bc)*', String.raw`x-\d*`, '(?i)Y', 'z{2}.?', '[^=!]+'];
    const found = limits(['mirrors', ...patterns.map((pattern) => `--source-namespaces=${pattern}`)], {});
    assert.deepEqual(found, { ...NONE, sourceNamespaces: { patterns } });
  });

  it('a selector without requirements, as from an unset variable of a shell, is refused with the name of its flag or variable', () => {
    for (const flag of ['source', 'destination', 'excluded']) {
      for (const value of ['selector:', 'selector: ']) {
        const message = `--${flag}-namespaces: bad value "${value}": selector: must have at least one requirement; omit the flag for the default`;
        assert.throws(() => limits(['run', `--${flag}-namespaces=${value}`]), { name: 'UsageError', message });
      }
    }
    const env = { KEYFERRY_EXCLUDED_NAMESPACES: 'selector:' };
    assert.throws(
      () => limits(['replicator'], env),
      /^UsageError: \$KEYFERRY_EXCLUDED_NAMESPACES: bad value "selector:"/,
    );
  });

  it('the help of a limit says selector: only for commands that take one', () => {
    for (const name of ['run', 'mirrors', 'replicator', 'syncsecret-ccm', 'syncsecret-manager']) {
      const flags =
        findControllerCommand(name)?.flags.filter(
          ({ name: flag }) => flag.endsWith('e-namespaces') && !flag.includes('exclude-'),
        ) ?? [];
      const takes = !name.startsWith('syncsecret-');
      for (const { help } of flags) assert.equal(help.includes('selector:'), takes, `${name}: ${help}`);
      assert.ok(flags.length > 0);
    }
  });

  it('the limits that are set are written for the log as flags, and no others', () => {
    assert.equal(limitsInForce(limits(['run'])), undefined);
    const flags = ['--source-namespaces=a,b-.*', '--excluded-namespaces=selector:x in (y)', '--replicator-push=false'];
    const env = { KEYFERRY_REQUIRE_CONSENT: 'true' };
    const written =
      '--source-namespaces=a,b-.* --excluded-namespaces=selector:x in (y) --require-consent=true --replicator-push=false';
    assert.equal(limitsInForce(limits(['run', ...flags], env)), written);
  });

  it('a limit with a mistake is refused with the name of its flag or variable', () => {
    const table: [readonly string[], Record<string, string>, RegExp][] = [
      [['run', '--source-namespaces='], {}, /--source-namespaces: bad value "": must have at least one item/],
      [['run', '--source-namespaces=('], {}, /--source-namespaces: bad value "\(": "\(" is not a pattern/],
      [['run', '--excluded-namespaces=selector:a>1'], {}, /--excluded-namespaces: .* is not a requirement/],
      [['run', '--excluded-namespaces=a,selector:b'], {}, /selector: must be the whole value/],
      [['run', '--source-namespaces=role=source'], {}, /"role=source" matches no namespace: .* write selector:/],
      [['run', '--destination-namespaces=a,!internal'], {}, /"!internal" matches no namespace/],
      [['run', '--excluded-namespaces=tier in (dev)'], {}, /"tier in \(dev\)" matches no namespace/],
      [['run', '--excluded-namespaces=kube-*'], {}, /"kube-\*" is a regular expression, .* write \.\*/],
      [['mirrors'], { KEYFERRY_EXCLUDED_NAMESPACES: '(' }, /^\$KEYFERRY_EXCLUDED_NAMESPACES: bad value "\("/],
      [['mirrors', '--namespaces=a', '--require-consent'], {}, /--require-consent: --namespaces reads no annotations/],
      [
        ['mirrors', '--namespaces=a', '--source-namespaces=selector:a'],
        {},
        /--source-namespaces: --namespaces reads no/,
      ],
      [
        ['syncsecret-manager', '--destination-namespaces=selector:a'],
        {},
        /^--destination-namespaces: bad value "selector:a": the controllers of SyncSecrets read no labels/,
      ],
      [['syncsecret-manager', '--require-consent'], {}, /^unknown flag --require-consent/],
      [
        ['run', '--controllers=syncsecret-manager,generator', '--require-consent'],
        {},
        /^--require-consent needs one of mirrors, replicator, reflector, config-syncer, mittwald in --controllers/,
      ],
      [
        ['run', '--controllers=syncsecret-manager', '--excluded-namespaces=selector:a'],
        {},
        /SyncSecrets read no labels/,
      ],
    ];
    for (const [argv, env, message] of table) assert.throws(() => limits(argv, env), { name: 'UsageError', message });
  });
});
