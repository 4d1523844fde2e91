import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import type { LimitsConfig } from '../../../config/config.ts';
import type { NamespaceLimit } from '../../../config/flags/limit-flags.ts';
import type { NamespaceFacts } from '../../../copy/cluster/watch/namespaces.ts';
import { type NamePattern, PatternCache } from '../../../runtime/text/name-patterns.ts';
import { LeftOut } from './left-out.ts';
import { Reach, reachOf } from './reach.ts';

const NO_LIMITS: LimitsConfig = {
  sourceNamespaces: undefined,
  destinationNamespaces: undefined,
  excludedNamespaces: undefined,
  requireConsent: false,
  replicatorPush: true,
  reflectorPush: true,
  adoptOrphans: false,
  mittwaldPush: true,
};

const reachWith = (limits: Partial<LimitsConfig>): Reach => reachOf({ ...NO_LIMITS, ...limits });
const names = (...patterns: string[]): NamespaceLimit => ({ patterns });
const byLabel = (selector: string): NamespaceLimit => ({ selector });

describe('reach', () => {
  it('without limits and consents, a rule may copy from and into every namespace', () => {
    const reach = new Reach();
    assert.equal(reach.fromRefusal('a', undefined), undefined);
    assert.equal(reach.toRefusal('a', 'b', undefined), undefined);
    assert.equal(reach.toRefusal('a', 'b', { labels: {} }), undefined);
  });

  it('limits and consents decide which namespaces a rule may copy into', () => {
    const none: NamespaceFacts = { labels: {} };
    const accepts = (acceptFrom: string): NamespaceFacts => ({ labels: {}, acceptFrom });
    const prod: NamespaceFacts = { labels: { tier: 'prod' } };
    const table: [string, Partial<LimitsConfig>, string, string, NamespaceFacts | undefined, string | undefined][] = [
      ['the consent lists the name', {}, 'team-a', 'x', accepts('team-a'), undefined],
      ['one item of the consent matches', {}, 'infra-7', 'x', accepts('team-a, infra-.*'), undefined],
      ['a pattern matches only whole names', {}, 'evil-infra-7', 'x', accepts('infra-.*'), 'NotAccepted'],
      ['an empty annotation accepts nobody', {}, 'team-a', 'x', accepts(''), 'NotAccepted'],
      ['blanks accept nobody', {}, 'team-a', 'x', accepts('  '), 'NotAccepted'],
      ['one broken pattern accepts nobody', {}, 'team-a', 'x', accepts('team-a,('), 'NotAccepted'],
      ['an empty item accepts nobody', {}, 'team-a', 'x', accepts('team-a,,b'), 'NotAccepted'],
      ['a rule needs no consent for its own namespace', { requireConsent: true }, 'x', 'x', accepts(''), undefined],
      ['required consent is missing', { requireConsent: true }, 'team-a', 'x', none, 'NotAccepted'],
      ['nothing is known of the namespace', { requireConsent: true }, 'team-a', 'x', undefined, 'NotAccepted'],
      ['required consent is there', { requireConsent: true }, 'team-a', 'x', accepts('.*'), undefined],
      ['an excluded name', { excludedNamespaces: names('kube-.*') }, 'a', 'kube-x', none, 'NotPermitted'],
      [
        "an exclusion holds for the rule's own namespace, too",
        { excludedNamespaces: names('a') },
        'a',
        'a',
        none,
        'NotPermitted',
      ],
      ['not a destination', { destinationNamespaces: names('b') }, 'a', 'c', none, 'NotPermitted'],
      ['a destination', { destinationNamespaces: names('b') }, 'a', 'b', none, undefined],
      ['a destination by label', { destinationNamespaces: byLabel('tier=prod') }, 'a', 'b', prod, undefined],
      ['no destination by label', { destinationNamespaces: byLabel('tier=prod') }, 'a', 'b', undefined, 'NotPermitted'],
    ];
    for (const [title, limits, home, to, facts, reason] of table) {
      assert.equal(reachWith(limits).toRefusal(home, to, facts)?.reason, reason, title);
    }
    const why = (acceptFrom: string): string | undefined =>
      new Reach().toRefusal('team-a', 'x', accepts(acceptFrom))?.message;
    for (const text of ['team-a,(', 'team-a,,b', 'web,team*', 'x'.repeat(16 * 1024 + 1)])
      assert.match(why(text) ?? '', /\(a mistake in annotation keyferry\.dev\/accept-from\)$/, text.slice(0, 20));
    for (const text of ['', 'b,web-.*']) assert.match(why(text) ?? '', / \(annotation keyferry\.dev\/accept-from\)$/);
    assert.equal(why('web*,team-a'), undefined, 'the glob is another item');
  });

  it('if --source-namespaces does not list a namespace, copies from it are refused with a message that names the flag', () => {
    const reach = reachWith({ sourceNamespaces: names('platform') });
    assert.equal(reach.fromRefusal('platform', undefined), undefined);
    const refusal = reach.fromRefusal('team-a', undefined);
    assert.equal(refusal?.reason, 'NotPermitted');
    assert.match(refusal?.message ?? '', /--source-namespaces/);
  });

  it('reach reads labels if a limit is a selector', () => {
    for (const limit of ['sourceNamespaces', 'destinationNamespaces', 'excludedNamespaces']) {
      assert.equal(reachWith({ [limit]: byLabel('tier=prod,!team') }).readsLabels, true, limit);
      assert.equal(reachWith({ [limit]: names('a') }).readsLabels, false, limit);
    }
  });

  it('the message on refused namespaces names those that the rule itself names, and only counts the others', async () => {
    const reach = reachWith({ excludedNamespaces: names('kube-.*') });
    const there = ['a', 'closed', 'hidden-1', 'hidden-2', 'home', 'kube-system'];
    const facts = new Map(['closed', 'hidden-1', 'hidden-2'].map((name) => [name, { labels: {}, acceptFrom: '' }]));
    const namespaces = { names: () => there, has: () => true, factsOf: (name: string) => facts.get(name) };
    const leftOut = new LeftOut('home');
    const all = new PatternCache('full').get('.*') as NamePattern;
    const selection = { names: new Set(['closed']), patterns: [all] };
    assert.deepEqual(await reach.reachedBy(selection, namespaces, leftOut, 'home'), ['a']);
    assert.equal(
      leftOut.outOfReach()?.message,
      'namespace closed and 2 other namespaces do not accept copies from namespace home (annotation keyferry.dev/accept-from); ' +
        'NotPermitted: copies into 1 namespace are not permitted by --excluded-namespaces',
    );
    assert.deepEqual([leftOut.outOfReach()?.reason, leftOut.outOfReach()?.part], ['NotAccepted', 'named']);
    const byPattern = new LeftOut('home');
    await reach.reachedBy({ names: new Set(), patterns: [all] }, namespaces, byPattern, 'home');
    assert.equal(byPattern.outOfReach()?.part, 'others', 'the author of the rule cannot know these namespaces');
    assert.match(byPattern.outOfReach()?.message ?? '', /^3 namespaces do not accept/);
    const nothing = new LeftOut('other');
    await reach.reachedBy({ names: new Set(), patterns: [all] }, { ...namespaces, names: () => ['closed'] }, nothing);
    assert.equal(nothing.outOfReach()?.part, 'named', 'the rule copies into no namespace');
    const parts = new LeftOut('home');
    for (const names of [['a'], ['closed']])
      await reach.reachedBy({ names: new Set(), patterns: [all] }, { ...namespaces, names: () => names }, parts);
    assert.equal(parts.outOfReach()?.part, 'others', 'the first selection copies into a namespace');
    const twice = new LeftOut('home');
    for (let target = 0; target < 2; target += 1) twice.add('excluded', 'closed', true);
    assert.match(twice.outOfReach()?.message ?? '', /into namespace closed are/, 'two targets in one namespace');
    assert.equal(new LeftOut('home').outOfReach(), undefined);
  });
});
