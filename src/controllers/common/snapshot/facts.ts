/** Facts from lists that were taken once. Content is read only where metadata do not decide, for many targets at once. */
import { namespaceOf, parseResourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import { immutableBy } from '../../../copy/model/observed.ts';
import type { Claims } from '../../../copy/book/claims.ts';
import type { FactSource, TargetReader } from '../../../copy/plan/decide.ts';
import { Contents } from './contents.ts';
import type { Inventory } from './inventory.ts';
import type { SnapshotOptions } from './snapshot.ts';

export function factsFrom(
  inventory: Inventory,
  claims: Claims,
  {
    api,
    changes,
    contents: kept,
    controllers,
    now,
    signal,
  }: Pick<SnapshotOptions, 'api' | 'changes' | 'contents' | 'controllers' | 'now' | 'signal'>,
): { readonly source: FactSource; readonly reader: TargetReader } {
  const kinds = controllers.flatMap(({ collection }) => collection?.content ?? []);
  const contents = kept ?? new Contents(api, signal, changes, kinds);
  contents.forgetOthers((key) => inventory.objects.get(key)?.resourceVersion);
  const reader: TargetReader = {
    state: (target) => {
      const observed = inventory.objects.get(target);
      const read = contents.of(target) ?? undefined;
      // Another version than was listed: the target is being changed.
      const held = read?.resourceVersion === observed?.resourceVersion ? read : undefined;
      return {
        presence: observed === undefined ? 'absent' : 'present',
        observed,
        goingAway: false,
        held,
        type: parseResourceKey(target).kind === SECRET.kind ? held?.fingerprint.type : '',
        immutable: held?.immutable ?? (observed && immutableBy(observed)),
        cannotUpdate: held?.immutable ?? false,
      };
    },
    read: async (target) => await contents.read(target),
  };
  const source: FactSource = {
    claims,
    sources: {
      view: (source) => inventory.view(source),
      fingerprint: (source) => (source === undefined ? undefined : contents.of(source)?.fingerprint),
      load: async (source) => ((await contents.read(source)) ? source : undefined),
    },
    hasNamespace: (name) => inventory.hasNamespace(name),
    orphanActionOf: async (owner, target, observed) => {
      const version = claims.versionOf(owner);
      return await claims.orphanActionOf(owner, target, observed, {
        isOutdated: () => version === undefined && !wouldBeListed(inventory, owner),
        getLive: () => Promise.resolve(version === undefined ? { state: 'gone' } : { state: 'there', version }),
      });
    },
    now: () => now,
  };
  return { source, reader };
}

/** Whether the rule would be listed if it existed. Where its own kind cannot be listed, its reader reports no orphans. */
function wouldBeListed(inventory: Inventory, rule: RuleKey): boolean {
  const kinds = [...inventory.reaches.keys()].filter((kind) => kind !== 'Namespace');
  return kinds.every((kind) => inventory.isRefused(kind) || inventory.isListed(kind, namespaceOf(rule)));
}
