/** The SecretMirrors for `status` and `plan`. */
import { parseResourceKey, type ResourceKey, resourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { isRecord } from '../../kube/json.ts';
import { PatternCache } from '../common/namespace-patterns.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import type { ControllerReader, ReaderContext, RuleCollection, RuleReader } from '../common/snapshot/reader.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import type { ControllerStatus } from '../common/snapshot/status-report.ts';
import {
  MIRRORS_API_PATH,
  MIRRORS_API_VERSION,
  MIRRORS_GROUP,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  type SecretMirror,
} from './api.ts';
import { NOT_INSTALLED } from './crd-diagnosis.ts';
import { misreadPatterns } from './misread-patterns.ts';
import { mirrorName, mirrorRule, MirrorStore } from './mirror-store.ts';
import { MirrorReconciler } from './reconciler.ts';
import { effectiveSpec, type EffectiveSpec } from './spec.ts';
import { mirrorsStatus, vaultPlace } from './status-report.ts';

const COLLECTION: RuleCollection = {
  kind: SECRET_MIRROR_KIND,
  groupPath: MIRRORS_API_PATH,
  plural: SECRET_MIRROR_PLURAL,
  apiVersions: new Map([
    [MIRRORS_API_VERSION, undefined],
    // The server drops its fields, because the CRD stores v1alpha2.
    [`${MIRRORS_GROUP}/v1alpha1`, 'apiVersion v1alpha1 is not converted: use v1alpha2'],
  ]),
  notInstalled: NOT_INSTALLED,
  specProblem,
};

export const mirrorsReader: ControllerReader = {
  collection: COLLECTION,
  open: (context) => new MirrorReader(context),
};

export class MirrorReader implements RuleReader {
  readonly ruleNames = 'SecretMirrors';
  readonly mirrors = new MirrorStore(() => undefined);
  readonly reconciler: MirrorReconciler;
  readonly #namespaces: Namespaces;
  readonly #patterns: PatternCache;

  constructor({ api, config, inventory, now, onLimitChange }: ReaderContext) {
    inventory.include(COLLECTION, (item) => this.mirrors.put(item));
    this.#namespaces = inventory.namespaces;
    this.#patterns = new PatternCache(config.mirrors.regexMode);
    this.reconciler = new MirrorReconciler({
      api,
      mirrors: this.mirrors,
      namespaces: inventory.namespaces,
      patterns: this.#patterns,
      secretKey: (namespace, name) => resourceKey(api.cluster, SECRET.kind, namespace, name),
      viewOf: () => ({ state: 'unknown' }),
      recordEvent: () => undefined,
      onSynced: () => undefined,
      onGone: () => undefined,
      deletionTimeoutMs: 0,
      onLimitChange,
      synced: async () => await Promise.resolve(),
      now: () => now,
    });
  }

  *rules(): Iterable<RuleKey> {
    for (const [rule] of this.mirrors.all()) yield rule;
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    return kind === SECRET_MIRROR_KIND ? mirrorRule(namespace, name) : undefined;
  }

  titleOf(rule: RuleKey): string {
    return `${SECRET_MIRROR_KIND} ${mirrorName(rule)}`;
  }

  specOf(mirror: SecretMirror): EffectiveSpec {
    return effectiveSpec(mirror, this.#patterns);
  }

  problemsOf(object: ResourceKey): readonly string[] {
    const rule = this.ruleOf(object);
    const mirror = rule === undefined ? undefined : this.mirrors.get(rule);
    if (rule === undefined || mirror === undefined) return [];
    const refusal = this.reconciler.refusalOf(rule);
    return refusal === undefined ? this.specOf(mirror).problems : [refusal];
  }

  noteOn(rule: RuleKey, claims: number): string | undefined {
    const mirror = this.mirrors.get(rule);
    if (mirror === undefined) return undefined;
    const { problems, destinationType, destinationVault, suspects } = this.specOf(mirror);
    if (problems.length > 0) return undefined;
    if (destinationType === 'vault')
      return `writes ${vaultPlace(destinationVault)} if it differs; this command does not read Vault`;
    const notes = claims === 0 ? ['no other namespace matches spec.destination.namespaces'] : [];
    notes.push(...misreadPatterns(suspects, this.#namespaces.names()));
    return notes.length === 0 ? undefined : notes.join('; ');
  }

  async status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus> {
    return await mirrorsStatus(snapshot, this, isIncluded);
  }
}

function specProblem(spec: Readonly<Record<string, unknown>>): string | undefined {
  for (const field of ['source', 'destination']) {
    const value = spec[field] ?? {};
    if (!isRecord(value) || Array.isArray(value)) return `spec.${field} is not an object`;
    const notText = ['name', 'type', 'secretType'].find((name) => typeof (value[name] ?? '') !== 'string');
    if (notText !== undefined) return `spec.${field}.${notText} is not a string`;
  }
  const patterns: unknown = (spec as SecretMirror['spec'])?.destination?.namespaces ?? [];
  const isList = Array.isArray(patterns) && patterns.every((item) => typeof item === 'string');
  return isList ? undefined : 'spec.destination.namespaces is not a list of strings';
}
