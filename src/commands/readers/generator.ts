/**
 * Reads the ExternalSecrets for `status` and `plan`. Their state comes from the objects. Their problems come from the
 * functions that the generator's worker uses. Vault is not read, because this needs the login of a store.
 */
import { parseResourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import type { KubeObject } from '../../kube/api.ts';
import type { Inventory, RuleCollection } from '../snapshot/inventory.ts';
import { vaultPlace } from '../snapshot/places.ts';
import type { Description, RuleReader } from '../snapshot/reader.ts';
import type { RuleState } from '../snapshot/rule-state.ts';
import { optInOf, RESULT_ANNOTATION, settingsOf, SettingError } from '../../controllers/generator/request/settings.ts';
import { ESO_ADVICE, ESO_GROUP, ESO_VERSIONS, type ExternalSecret } from '../../controllers/generator/api.ts';
import { requestsOf } from '../../controllers/generator/request/requests.ts';
import { parseResult, WRONG_ANNOTATION } from '../../controllers/generator/run/result.ts';

const KIND = 'ExternalSecret';
const [NEWEST, ...OLDER] = ESO_VERSIONS;

export const EXTERNAL_SECRETS: RuleCollection = {
  kind: KIND,
  groupPath: `/apis/${ESO_GROUP}/${NEWEST}`,
  olderGroupPaths: OLDER.map((version) => `/apis/${ESO_GROUP}/${version}`),
  plural: 'externalsecrets',
  shortName: 'es',
  isRare: true,
  apiVersions: new Map(ESO_VERSIONS.map((version) => [`${ESO_GROUP}/${version}`, undefined])),
  notInstalled: ESO_ADVICE,
};

export class GeneratorReader implements RuleReader {
  readonly versionMark = '';
  /** The ExternalSecrets that the generator serves. Key: `<namespace>/<name>`. */
  readonly #objects = new Map<string, ExternalSecret>();

  constructor(inventory: Inventory) {
    inventory.include(EXTERNAL_SECRETS, (item: KubeObject) => {
      const { namespace = '', name, annotations = {} } = item.metadata;
      // The command does not know whether the operator runs with `--all`. A result shows that the operator serves it.
      const isServed = optInOf(annotations, false) !== 'no' || annotations[RESULT_ANNOTATION] !== undefined;
      if (isServed) this.#objects.set(`${namespace}/${name}`, item);
    });
  }

  describe(object: ResourceKey): Description | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const found = kind === KIND ? this.#objects.get(`${namespace}/${name}`) : undefined;
    if (found === undefined) return undefined;
    const { kind: storeKind = 'SecretStore', name: store = '' } = found.spec?.secretStoreRef ?? {};
    const { wanted } = requestsOf(found.spec);
    const paths = [...new Set(wanted.map(({ key }) => key))];
    const problems = problemsIn(found);
    const values = wanted.map(({ key, property }) => `${property} of ${key}`).join(', ');
    return {
      source: `${storeKind} ${store}`,
      from: { cluster: '', kind: storeKind, namespace: storeKind === 'SecretStore' ? namespace : '', name: store },
      destinations: paths.map((path) => `vault ${path}`),
      elsewhere: paths.map((path) => vaultPlace(store, path)),
      state: () => ({ ...stateOf(found), lastSyncTime: null }),
      problems,
      notes:
        wanted.length === 0 || problems.length > 0
          ? []
          : [`gets these values where Vault has none (this command does not read Vault): ${values}`],
    };
  }
}

/** Why the generator would make no value. Finds only reasons that the ExternalSecret itself shows. */
function problemsIn({ metadata, spec }: ExternalSecret): readonly string[] {
  const annotations = metadata.annotations ?? {};
  if (optInOf(annotations, false) === 'wrong') return [WRONG_ANNOTATION];
  try {
    settingsOf(annotations);
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    return [error.message];
  }
  return requestsOf(spec).problems.map(({ field, message }) => `${field}: ${message}`);
}

function stateOf({ metadata, status }: ExternalSecret): RuleState {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  // If ESO fails, the generator's result explains the failure better than ESO's condition.
  const said = ready?.status === 'True' ? undefined : parseResult(metadata.annotations?.[RESULT_ANNOTATION]);
  return {
    state: ready === undefined ? 'Unknown' : ready.status === 'True' ? 'Ready' : 'Failing',
    ready: ready?.status === 'True',
    reason: said?.reason ?? ready?.reason ?? 'NotSeen',
    message: said?.message ?? ready?.message ?? 'not reconciled yet; check that External Secrets Operator is running',
  };
}
