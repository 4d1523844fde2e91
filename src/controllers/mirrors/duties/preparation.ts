/** Adds the finalizer to a SecretMirror and writes its defaults, before anything is copied for it. */
import { isInvalid } from '../../../kube/errors.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Preparation } from '../../../copy/engine/rule-reconciler.ts';
import { finalizerStep } from '../../common/rules/finalizer.ts';
import type { RuleClient } from '../../common/rules/rule-client.ts';
import { SECRET_MIRROR_FINALIZER } from '../api.ts';
import type { MirrorStore, StoredMirror } from '../rules/mirror-store.ts';
import { missingDefaults, type SpecCache } from '../rules/spec.ts';
import { withoutOurSpec } from '../rules/spec-owner.ts';

export interface MirrorPreparationOptions {
  readonly client: RuleClient;
  readonly mirrors: MirrorStore;
  readonly specs: SpecCache;
}

export class MirrorPreparation {
  readonly #options: MirrorPreparationOptions;
  /** Uids of mirrors whose stored spec violates the CRD, so that the server refuses the defaults. */
  readonly #refusedDefaults = new Map<RuleKey, string>();

  constructor(options: MirrorPreparationOptions) {
    this.#options = options;
  }

  /** @see RuleReconciler.preparationOf */
  needed(rule: RuleKey): Preparation | undefined {
    const mirror = this.#options.mirrors.get(rule);
    const step = mirror && finalizerStep(mirror.metadata, SECRET_MIRROR_FINALIZER);
    if (mirror === undefined || step === 'cleanup' || step === 'none') return undefined;
    if (step === 'add') return 'first';
    const isIncomplete = this.#defaultsFor(rule, mirror) !== undefined;
    return isIncomplete || withoutOurSpec(mirror.metadata.managedFields) !== undefined ? 'beside' : undefined;
  }

  #defaultsFor(rule: RuleKey, mirror: StoredMirror): Record<string, unknown> | undefined {
    const isRefused = this.#refusedDefaults.get(rule) === mirror.metadata.uid;
    return isRefused ? undefined : missingDefaults(mirror, this.#options.specs.get(mirror));
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { client, mirrors } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined) return;
    const { uid } = mirror.metadata;
    const spec = this.#defaultsFor(rule, mirror);
    try {
      await client.addFinalizer(mirror, SECRET_MIRROR_FINALIZER, { spec }, signal);
    } catch (error) {
      // The spec of a mirror that was stored before the CRD had any validation may be refused as a whole; the finalizer is not.
      if (!isInvalid(error) || spec === undefined) throw error;
      this.#refusedDefaults.set(rule, uid);
      await client.addFinalizer(mirror, SECRET_MIRROR_FINALIZER, {}, signal);
    }
    await this.#disownDefaults(rule, signal);
  }

  remove(rule: RuleKey): void {
    this.#refusedDefaults.delete(rule);
  }

  /** A separate request, because the server makes the sender of a request the owner of the fields that it changes. */
  async #disownDefaults(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { client, mirrors } = this.#options;
    const mirror = mirrors.get(rule);
    const managedFields = withoutOurSpec(mirror?.metadata.managedFields);
    if (mirror === undefined || managedFields === undefined) return;
    const { resourceVersion } = mirror.metadata;
    try {
      await client.patch(mirror, { metadata: { resourceVersion, managedFields } }, signal);
    } catch (error) {
      // A mirror that the CRD refuses today is copied all the same; Keyferry stays the owner of its fields.
      if (!isInvalid(error)) throw error;
    }
  }
}
