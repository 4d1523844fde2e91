/**
 * `node scripts/screenshots.ts`: makes the pictures of the page in docs/images/ from a real cluster, in which Keyferry
 * copies between the namespaces of some teams. Needs the Debian package chromium.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { startControlPlane } from '../test/servers/control-plane.ts';
import { mirror, namespace, secret } from '../test/scenarios/cli/objects.ts';
import { openPage, startPage } from '../test/scenarios/ui/program.ts';
import { Browser } from '../test/support/browser.ts';
import { Keyferry } from '../test/support/keyferry.ts';
import { readCrds } from './crd/read-crds.ts';

const FOLDER = path.join(import.meta.dirname, '../docs/images');
const SIZE = { width: 1200, height: 630 };
const TEAMS = 'auth billing crm data docs edge iot lab media mobile ops pay risk search web'.split(' ');
const STAGES = ['dev', 'prod', 'stage', 'test'];

/** Namespace, name of the Secret, and the namespaces that get it. */
const RULES: readonly (readonly [string, string, string])[] = [
  ['platform', 'registry', '.+'],
  ['platform', 'npm-token', '.+'],
  ['platform', 'sentry-dsn', '.+-prod'],
  ['platform', 'slack-hook', '(?:billing|crm|data|pay|web)-.+'],
  ['platform', 'smtp', '.+-(?:prod|stage)'],
  ['pki', 'ca-bundle', '.+'],
  ['pki', 'wildcard-tls', '.+-(?:prod|stage)'],
  ['pki', 'client-ca', '(?:pay|risk|billing)-.+'],
  ['web-prod', 'session-key', 'web-.+'],
  ['data-prod', 'postgres-ro', '(?:lab|search|risk)-.+'],
];
/** Namespaces in which a Secret of their own has the name of a copy. */
const TAKEN = ['billing-dev', 'billing-prod', 'billing-stage', 'crm-prod'];

const of = (home: string, name: string, pattern: string): object => ({
  ...mirror(name, name, [pattern]),
  metadata: { name, namespace: home },
});

const plane = await startControlPlane({ controllerManager: false });
try {
  const { api } = plane;
  await api.apply(readCrds());
  const teams = TEAMS.flatMap((team) => STAGES.map((stage) => `${team}-${stage}`));
  await api.createMany([...teams, 'platform', 'pki'].map((name) => namespace(name)));
  for (const name of TAKEN) await api.create(secret(name, 'ca-bundle', 'of the team'));
  const consent = { metadata: { annotations: { 'keyferry.dev/accept-from': 'platform' } } };
  for (const stage of STAGES) await api.patch(`/api/v1/namespaces/risk-${stage}`, consent);
  for (const [home, name, pattern] of RULES) {
    await api.create(secret(home, name, 'x'));
    await api.create(of(home, name, pattern));
  }
  await api.create(of('platform', 'grafana-key', '.+-dev'));
  await using keyferry = await Keyferry.start({ kubeconfig: plane.kubeconfigPath });
  await keyferry.ready();
  await using page = await startPage(plane.kubeconfigPath);
  await using browser = await Browser.start();
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, view, scheme] of [
    ['ui-map', '#map', 'light'],
    ['ui-rule', '#o/SecretMirror/pki/ca-bundle', 'dark'],
  ] as const) {
    const first = name === 'ui-map' ? page.url : `${page.origin}/`;
    const tab = await openPage(browser, { ...page, url: first }, SIZE, scheme);
    await tab.go('#map');
    await tab.sees(/copies up to date\s+‖ 15 waiting\s+✕ 4 not made/);
    // The host of this machine's server says nothing to a reader.
    await tab.eval(`document.querySelector('header small').textContent = 'prod.example'`);
    await tab.go(view);
    await tab.eval(`document.querySelector('header small').textContent = 'prod.example'`);
    await tab.frame();
    await tab.frame();
    writeFileSync(path.join(FOLDER, `${name}.png`), await tab.screenshot());
    if (name !== 'ui-map') await tab.close();
  }
} finally {
  await plane.stop();
}
process.exit(0);
