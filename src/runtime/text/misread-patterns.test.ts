import assert from 'node:assert/strict';
import { test } from 'node:test';
import { misreadAs } from './misread-patterns.ts';

test('a glob, a list, a label selector and upper-case letters look like mistakes, and regular expressions do not', () => {
  const r = String.raw;
  for (const [what, patterns] of [
    ['glob', ['team-*', '^prod*$', '*-a*', 'db1*', '(team-*|x)']],
    ['selector', ['a,b', 'a, b', ' a', 'a ', 'a b', 'tier=prod', '!tier', 'tier in (a)', 'a,team-*']],
    ['no name', ['TA', 'Team-.*', 'team_a', '(?P<Name>team)_.*']],
    [
      undefined,
      ['a', 'team-.*', '[a-z]*-prod', '(x|y)*', 'x{2,3}', 'x[,]y', '[A-Z*]', r`prod-\d*`, r`a\*`, r`x\S\D`, '.*?'],
    ],
    [undefined, ['(?i)none', '(?P<Name>none)', '(?:a|b)', '^(?!(?:a|b)$).*', '(?=a).*', 'webs?']],
    [undefined, ['(?i)KUBE-.*', '(?i:TEAM)-.*', r`\pL*`, r`\p{Lu}*-system`, r`\p{^Greek}-a`]],
  ] as const)
    for (const pattern of patterns) assert.equal(misreadAs(pattern), what, pattern);
});
