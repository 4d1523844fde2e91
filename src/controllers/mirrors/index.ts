/** The controller of SecretMirrors: constructs its parts, opens its watches, and says what each event enqueues. */
import type { Controller, GoneRule, Report, RuleChange, RuleFacts, RuleKind } from '../../copy/engine/controller.ts';
import { nobodyCause } from '../../copy/model/cause.ts';
import type { SourceView } from '../../copy/model/claim.ts';
import { parseResourceKey, type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { watchCopies } from '../common/watch-copies.ts';
import {
  MIRRORS_CONTROLLER,
  MIRRORS_CRD_ADVICE,
  MIRRORS_GROUP,
  SECRET_MIRROR,
  SECRET_MIRROR_FINALIZER,
  type SecretMirrorStatus,
} from './api.ts';
import { MirrorVault } from './duties/mirror-vault.ts';
import { MirrorMetrics } from './metrics.ts';
import { createMirrorStore, type MirrorStore, type StoredMirror, withoutOurSpec } from './rules/mirror-store.ts';
import { MirrorRules } from './rules/rule-set.ts';
import { isReadOfCopies } from './shape.ts';
import { missingDefaults } from './rules/spec.ts';
import { deletionEvents, nextStatus } from './words.ts';

export const mirrors: ControllerEntry = {
  name: 'mirrors',
  component: MIRRORS_GROUP,
  annotationReader: () => isReadOfCopies,
  create: (context) => new Mirrors(context),
};

/** The view that is used as the source's while a mirror is being deleted. */
const NO_SOURCE: SourceView = { state: 'missing', ...nobodyCause('Deleted', 'the mirror is being deleted') };

export class Mirrors implements Controller<StoredMirror, SecretMirrorStatus> {
  readonly store: MirrorStore;
  readonly rules: MirrorRules;
  readonly kindOf = (): RuleKind => SECRET_MIRROR;
  readonly #context: ControllerContext;
  readonly #vault: MirrorVault;
  readonly #metrics: MirrorMetrics;
  /** The watch of copied ConfigMaps. */
  #configMaps: WatchGroup | undefined;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, cluster, config, metrics, vault } = context;
    const specOptions = {
      crossNamespaceAuth: config.mirrors.allowCrossNamespaceAuth,
      vaultAddresses: vault.addresses,
      vaultDefaults: config.vault.environment,
    };
    const mirrors = (this.store = createMirrorStore((rule) => {
      if (mirrors.get(rule)?.spec.source?.type === 'configmap') this.#watchConfigMaps();
      engine.enqueueRule(rule);
    }));
    this.#metrics = new MirrorMetrics(metrics.registry);
    this.#vault = new MirrorVault(context, { mirrors, specOptions, metrics: this.#metrics });
    this.rules = new MirrorRules(context.scope, {
      mirrors,
      specOptions,
      viewOf: (source) => engine.backends.view(source),
      observed: (copy) => {
        const { kind, namespace, name } = parseResourceKey(copy);
        return cluster.store(kind === CONFIG_MAP.kind ? CONFIG_MAP : SECRET).index.get(namespace, name);
      },
      vault: this.#vault,
    });
  }

  /** An evaluation must know all copies of the mirror. Only the lists of all copies show them. */
  async open(): Promise<void> {
    const { cluster, namespaceChanges } = this.#context;
    namespaceChanges.serve(this.rules.targets);
    const watches = [this.#watchMirrors(), watchCopies(cluster, SECRET, 'copies', MIRRORS_CONTROLLER)];
    await Promise.all(watches.map(async ({ synced }) => await synced));
    await this.#configMaps?.synced;
  }

  #watchMirrors(): WatchGroup {
    const { cluster, config } = this.#context;
    const custom = { advice: MIRRORS_CRD_ADVICE.watch, isOptional: !config.controllersNamed };
    const path = `${SECRET_MIRROR.groupPath}/${SECRET_MIRROR.plural}`;
    const target = { collection: SECRET_MIRROR.plural, path, metadataOnly: false };
    // Without the permission the API server says 403 even if it does not have the API.
    const neededBy = config.controllersNamed ? undefined : 'some rules';
    return cluster.watch(target, this.store.sink, { custom, neededBy }, cluster.served);
  }

  /** Opens the watch of copied ConfigMaps for the first mirror of a ConfigMap: others need no such permission. */
  #watchConfigMaps(): void {
    this.#configMaps ??= watchCopies(this.#context.cluster, CONFIG_MAP, 'copies', MIRRORS_CONTROLLER, 'some rules');
  }

  /** The finalizer, with the defaults as in the original. Then Keyferry gives up the ownership of the defaults. */
  due(_key: RuleKey, mirror: StoredMirror): RuleChange | undefined {
    if (mirror.metadata.deletionTimestamp !== undefined) return undefined;
    const { finalizers = [], managedFields } = mirror.metadata;
    const isHeld = finalizers.includes(SECRET_MIRROR_FINALIZER);
    const spec = missingDefaults(mirror, this.rules.specOf(mirror));
    if (!isHeld || spec !== undefined) return { finalizer: isHeld ? undefined : SECRET_MIRROR_FINALIZER, spec };
    const disowned = withoutOurSpec(managedFields);
    return disowned && { managedFields: disowned };
  }

  report(facts: RuleFacts<StoredMirror, SecretMirrorStatus> | GoneRule): Report<SecretMirrorStatus> | undefined {
    const { key, rule: mirror } = facts;
    if (mirror === undefined) {
      this.#metrics.removeMirror(ruleName(key));
      return undefined;
    }
    const { claims, deletion, previous } = facts;
    const { leases } = this.#vault;
    const spec = this.rules.specOf(mirror);
    if (deletion?.isDone === true) {
      // The end of the revocations enqueues this report again.
      if (!leases.revocation(key, mirror, spec)) return undefined;
      const left = deletion.isTimedOut ? deletion.remaining : [];
      const events = deletionEvents(claims, left, spec.destinationType);
      return { events, removeFinalizers: [SECRET_MIRROR_FINALIZER] };
    }
    if (deletion !== undefined) {
      const told = nextStatus({ ...facts, mirror, spec, source: NO_SOURCE, undeleted: [], writes: 0 });
      return { ...told, againMs: deletion.remainingMs > 0 ? deletion.remainingMs : undefined };
    }
    const source = this.rules.sourceOf(key, mirror, spec);
    const told = nextStatus({
      ...facts,
      mirror,
      spec,
      lease: leases.state(source, claims),
      source: this.#context.engine.backends.view(source),
      trouble: source === undefined ? undefined : this.#vault.trouble(source),
    });
    const written = (): void => {
      leases.recorded(key, mirror, spec, previous, told?.status ?? previous);
      if (told?.synced === true) this.#metrics.synced(ruleName(key), spec, told.namespaces);
      const isApplied = (facts.refusal ?? facts.failure) === undefined;
      if (told !== undefined && isApplied) leases.revokePrevious(key, spec, claims);
    };
    return { ...told, written };
  }
}
