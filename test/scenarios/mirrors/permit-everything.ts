/** A CRD without validation. With it, tests show that the operator is safe also where the CRD checks nothing. */
import { parse } from 'yaml';

import { readCrd } from '../../../scripts/crd/read-crds.ts';
import type { TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirrorPath } from './support.ts';

/** Installs the CRD without its validation, and without dropping unknown fields. */
export async function permitEverything(api: TestApi): Promise<void> {
  const crd = parse(readCrd('secretmirrors'));
  for (const version of crd.spec.versions) {
    version.schema.openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  }
  await api.apply(crd);
  const body = {
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name: 'probe' },
    spec: {},
  };
  const takesAll = async (): Promise<boolean> =>
    (await api.raw('POST', mirrorPath(''), { body, query: { dryRun: 'All' } })).status === 201;
  await waitFor(takesAll, { message: 'the CRD that permits everything to be in force' });
}
