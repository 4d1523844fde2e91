/**
 * Reads the ExternalSecrets for `status` and `plan`. Their state comes from the objects. Their problems come from the
 * functions that the generator's worker uses. Vault is not read, because this needs the login of a store.
 */
import { parseResourceKey, type ResourceKey } from '../../copy/model/keys.ts';
import type { KubeObject } from '../../kube/api.ts';
import type { ListedRule, ReaderContext, RuleCollection, RuleReader } from '../snapshot/reader.ts';
import { notReady } from '../snapshot/status-report.ts';
import { optInOf, RESULT_ANNOTATION, settingsOf, SettingError } from '../../controllers/generator/request/settings.ts';
import {
  ESO_ADVICE,
  ESO_GROUP,
  ESO_VERSIONS,
  type ExternalSecret,
  GENERATOR,
} from '../../controllers/generator/api.ts';
import { requestsOf } from '../../controllers/generator/request/requests.ts';
import { parseResult, WRONG_ANNOTATION } from '../../controllers/generator/run/result.ts';

const KIND = 'ExternalSecret';
const [NEWEST, ...OLDER] = ESO_VERSIONS;

const COLLECTION: RuleCollection = {
  kind: KIND,
  groupPath: `/apis/${ESO_GROUP}/${NEWEST}`,
  olderGroupPaths: OLDER.map((version) => `/apis/${ESO_GROUP}/${version}`),
  plural: 'externalsecrets',
  isRare: true,
  apiVersions: new Map(ESO_VERSIONS.map((version) => [`${ESO_GROUP}/${version}`, undefined])),
  notInstalled: ESO_ADVICE,
};

export class GeneratorReader implements RuleReader {
  static readonly collection = COLLECTION;
  readonly collection = COLLECTION;
  readonly system = GENERATOR;
  readonly ruleNames = 'ExternalSecrets with the annotation create';
  readonly versionMark = '';
  /** The ExternalSecrets that the generator serves. Key: `<namespace>/<name>`. */
  readonly #objects = new Map<string, ExternalSecret>();

  constructor({ inventory }: ReaderContext) {
    inventory.include(COLLECTION, (item: KubeObject) => {
      const { namespace = '', name, annotations = {} } = item.metadata;
      // The command does not know whether the operator runs with `--all`. A result shows that the operator serves it.
      const isServed = optInOf(annotations, false) !== 'no' || annotations[RESULT_ANNOTATION] !== undefined;
      if (isServed) this.#objects.set(`${namespace}/${name}`, item);
    });
  }

  list(): ListedRule[] {
    return Array.from(this.#objects.values(), listed);
  }

  problemsOf(object: ResourceKey): readonly string[] {
    const found = this.#find(object);
    return found === undefined ? [] : problemsIn(found);
  }

  notesOf(object: ResourceKey): readonly string[] {
    const found = this.#find(object);
    const wanted = found === undefined || problemsIn(found).length > 0 ? [] : requestsOf(found.spec).wanted;
    if (wanted.length === 0) return [];
    const values = wanted.map(({ key, property }) => `${property} of ${key}`).join(', ');
    return [`gets these values where Vault has none (this command does not read Vault): ${values}`];
  }

  #find(object: ResourceKey): ExternalSecret | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    return kind === KIND ? this.#objects.get(`${namespace}/${name}`) : undefined;
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

function listed(object: ExternalSecret): ListedRule {
  const { metadata, spec, status } = object;
  const result = parseResult(metadata.annotations?.[RESULT_ANNOTATION]);
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const { kind = 'SecretStore', name: store = '' } = spec?.secretStoreRef ?? {};
  const keys = new Set(requestsOf(spec).wanted.map(({ key }) => key));
  const isReady = ready?.status === 'True';
  const state = isReady ? 'Ready' : ready === undefined ? 'Unknown' : 'Failing';
  // If ESO fails, the generator's result explains the failure better than ESO's condition.
  const said = isReady ? undefined : result;
  const because = notReady(
    state,
    said?.reason ?? ready?.reason ?? 'NotSeen',
    said?.message ?? ready?.message ?? 'not reconciled yet; check that External Secrets Operator is running',
  );
  return {
    key: undefined,
    isDecided: false,
    kind: KIND,
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    source: `${kind} ${store}`,
    destinations: [...keys].map((key) => `vault ${key}`),
    stateOf: () => ({ ...because, ready: isReady, lastSyncTime: null }),
  };
}
