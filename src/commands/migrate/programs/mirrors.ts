/** For `migrate`: takes over a cluster of ktsstudio/mirrors. SecretMirrors stay, the conversion webhook is removed. */
import type { TargetPlace } from '../../snapshot/places.ts';
import { command } from '../../../runtime/text/command.ts';
import { someOf } from '../../../runtime/text/texts.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { occursIn, selects } from '../../../controllers/common/namespaces/selection.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_CONTROLLER,
  MIRRORS_CRD_NAME,
  SECRET_MIRROR,
  type SecretMirror,
} from '../../../controllers/mirrors/api.ts';
import { effectiveSpec } from '../../../controllers/mirrors/rules/spec.ts';
import { parseResourceKey } from '../../../copy/model/keys.ts';
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { isNotFound } from '../../../kube/errors.ts';
import { parseJson } from '../../../kube/json.ts';
import { listEach } from '../../../kube/list-each.ts';
import type { Finding, ProgramFindings, MigrationContext, ProgramReader, Step } from '../program.ts';

const CRD_PATH = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${MIRRORS_CRD_NAME}`;
const CRD: TargetPlace = { kind: 'CustomResourceDefinition', namespace: '', name: MIRRORS_CRD_NAME };
/** Maximum number of namespaces that a finding names. */
const MOST_NAMED = 5;

export const mirrorsMigration: ProgramReader = {
  program: 'mirrors',
  image: /^mirrors$/,
  // The original may run meanwhile: both programs use the same Lease, so only one writes. And its webhook is needed.
  mustBeStopped: false,
  controller: MIRRORS_CONTROLLER,
  prepare,
  find,
};

interface Definition extends KubeObject {
  readonly spec?: { readonly conversion?: { readonly strategy?: string } };
  readonly status?: { readonly storedVersions?: readonly string[] };
}

/**
 * The writes that prepare the CRD of the original, in the order in which they must be made. They come before all other
 * steps: while the conversion webhook does not answer, the API server may refuse to list SecretMirrors.
 * @throws the errors of `api.request`
 */
async function prepare(api: KubeApi, signal: AbortSignal | undefined): Promise<readonly Step[]> {
  const crd = await definition(api, signal);
  if (crd?.spec?.conversion?.strategy !== 'Webhook') return [];
  const isOldStored = crd.status?.storedVersions?.includes('v1alpha1') === true;
  const store: Step = {
    object: CRD,
    text: 'SecretMirrors may be stored as v1alpha1: writes each SecretMirror again, so that it is stored as v1alpha2. The conversion webhook of the original must still answer',
    write: storeAgain,
  };
  const convert: Step = {
    object: CRD,
    text: `removes the conversion webhook, because it belongs to the original. After that, apply the output of \`${command('crds')}\``,
    write: withoutWebhook,
  };
  return isOldStored ? [store, convert] : [convert];
}

async function find({ api, config, objects, namespaces, signal }: MigrationContext): Promise<ProgramFindings> {
  const findings: Finding[] = [];
  const patterns = new PatternCache(config.mirrors.regexMode);
  let rules = 0;
  try {
    await listEach(
      api,
      `${SECRET_MIRROR.groupPath}/${SECRET_MIRROR.plural}`,
      (item) => {
        rules += 1;
        findings.push(...findingsOn(item, patterns, namespaces));
      },
      { signal },
    );
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  let copies = 0;
  for (const [key, { annotations }] of objects) {
    if (MIRROR_ANNOTATIONS.ownedBy in annotations && parseResourceKey(key).kind === 'Secret') copies += 1;
  }
  return { rules, copies, findings, changes: [] };
}

function findingsOn(mirror: SecretMirror, patterns: PatternCache, namespaces: readonly string[]): Finding[] {
  const { namespace = '', name } = mirror.metadata;
  const object: TargetPlace = { kind: SECRET_MIRROR.kind, namespace, name };
  const { namespaces: selection, problems } = effectiveSpec(mirror, patterns);
  const findings: Finding[] = problems.map((text) => ({ verdict: 'manual', object, text }));
  const whole = { ...selection, excluded: undefined };
  const partly = namespaces.filter((one) => !selects(whole, one) && occursIn(selection, one));
  if (partly.length > 0) {
    const text = `its patterns match only a part of ${someOf(partly, MOST_NAMED)}: write .* around them, or set --mirrors-regex=search`;
    findings.push({ verdict: 'difference', object, text });
  }
  const { source, destination } = mirror.spec ?? {};
  if (destination?.type === 'vault' && destination.vault?.encoding === undefined) {
    const text =
      'spec.destination.vault: the original writes every value in base64, Keyferry as it is; set encoding: base64 if readers expect that';
    findings.push({ verdict: 'manual', object, text });
  }
  if (source?.type === 'vault' && source.vault?.encoding === undefined) {
    const text =
      'spec.source.vault: the original decodes values that look like base64, Keyferry takes them as they are; set encoding: base64 if the original wrote them';
    findings.push({ verdict: 'manual', object, text });
  }
  return findings;
}

async function definition(api: KubeApi, signal: AbortSignal | undefined): Promise<Definition | undefined> {
  try {
    const { body } = await api.request({ method: 'GET', path: CRD_PATH, signal });
    return parseJson(body, `the answer to GET ${CRD_PATH}`) as Definition;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Writes every SecretMirror unchanged, because the API server then stores it in the current version. */
async function storeAgain(api: KubeApi, signal: AbortSignal | undefined): Promise<void> {
  const { groupPath, plural } = SECRET_MIRROR;
  const mirrors: KubeObject[] = [];
  await listEach(api, `${groupPath}/${plural}`, (item) => mirrors.push(item), { signal });
  for (const mirror of mirrors) {
    const { namespace = '', name } = mirror.metadata;
    const path = `${groupPath}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(name)}`;
    try {
      await api.request({ method: 'PUT', path, body: JSON.stringify(mirror), signal });
    } catch (error) {
      // Another client has deleted the mirror since the list.
      if (!isNotFound(error)) throw error;
    }
  }
}

async function withoutWebhook(api: KubeApi, signal: AbortSignal | undefined): Promise<void> {
  const body = JSON.stringify([
    { op: 'test', path: '/spec/conversion/strategy', value: 'Webhook' },
    { op: 'replace', path: '/spec/conversion', value: { strategy: 'None' } },
  ]);
  const contentType = 'application/json-patch+json';
  await api.request({ method: 'PATCH', path: CRD_PATH, body, contentType, signal });
}
