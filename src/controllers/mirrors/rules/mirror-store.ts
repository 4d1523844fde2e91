/** What is stored of a SecretMirror. */
import { RuleStore, ruleVersion, type RuleStoreOptions } from '../../common/rules/rule-store.ts';
import { MIRRORS_CONTROLLER, type SecretMirror } from '../api.ts';
import { withoutOurSpec } from './spec-owner.ts';

/** Maximum length of a stored list of patterns, characters: it can be as long as an object in etcd, and there may be thousands of mirrors. */
export const MAX_LIST = 64 * 1024;

export interface StoredMirror extends SecretMirror {
  /** Length of the list of namespaces in characters, if it is too long. The stored list is then empty. */
  readonly tooLongPatterns: number | undefined;
}

export type MirrorStore = RuleStore<StoredMirror>;

export function createMirrorStore(
  events: Pick<RuleStoreOptions<StoredMirror>, 'onChange' | 'onSameVersion'> = {},
): MirrorStore {
  return new RuleStore({
    controller: MIRRORS_CONTROLLER,
    toRule: withoutUnusedFields,
    versionOf: ruleVersion,
    ...events,
  });
}

/**
 * Removes fields that are not used: annotations may contain a whole earlier version of the object. Managed fields are stored only while
 * Keyferry owns parts of the spec.
 */
function withoutUnusedFields(mirror: SecretMirror): StoredMirror {
  const { managedFields, annotations: _, labels: __, ...metadata } = mirror.metadata;
  const kept = managedFields !== undefined && withoutOurSpec(managedFields) !== undefined ? { managedFields } : {};
  const { spec } = mirror;
  const length = lengthOf(spec?.destination?.namespaces);
  const isTooLong = length > MAX_LIST;
  return {
    ...mirror,
    metadata: { ...metadata, ...kept },
    ...(isTooLong && { spec: { ...spec, destination: { ...spec?.destination, namespaces: [] } } }),
    tooLongPatterns: isTooLong ? length : undefined,
  };
}

function lengthOf(list: readonly string[] | undefined): number {
  return list?.reduce((sum, text) => sum + text.length, 0) ?? 0;
}
