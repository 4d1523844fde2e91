/** Adds the finalizer to a SecretMirror and writes its defaults, before anything is copied for it. */
import type { KubeApi } from '../../kube/api.ts';
import { isInvalid } from '../../kube/errors.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { SECRET_MIRROR_FINALIZER } from './api.ts';
import { patchMirror } from './mirror-client.ts';
import type { MirrorStore } from './mirror-store.ts';
import { missingDefaults, type SpecCache } from './spec.ts';
import { withoutOurSpec } from './spec-owner.ts';

export interface MirrorPreparationOptions {
  readonly api: KubeApi;
  readonly mirrors: MirrorStore;
  readonly specs: SpecCache;
  /** Settles when the mirrors and all copies have been listed. */
  readonly synced: () => Promise<unknown>;
}

export class MirrorPreparation {
  readonly #options: MirrorPreparationOptions;
  /** Uids of mirrors whose stored spec violates the CRD, so that the server refuses the defaults. */
  readonly #refusedDefaults = new Map<RuleKey, string>();

  constructor(options: MirrorPreparationOptions) {
    this.#options = options;
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { mirrors, specs, synced } = this.#options;
    // The copies of a mirror are only known after the list of all copies.
    await orAborted(synced(), signal, 'waiting for the list of copies');
    const mirror = mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return;
    const { uid, finalizers = [] } = mirror.metadata;
    const hasFinalizer = finalizers.includes(SECRET_MIRROR_FINALIZER);
    const areDefaultsRefused = this.#refusedDefaults.get(rule) === uid;
    const spec = areDefaultsRefused ? undefined : missingDefaults(mirror, specs.get(mirror));
    if (!hasFinalizer || spec !== undefined) {
      const metadata = hasFinalizer ? {} : { finalizers: [...finalizers, SECRET_MIRROR_FINALIZER] };
      try {
        await this.#patch(rule, metadata, spec, signal);
      } catch (error) {
        // The spec of a mirror that was stored before the CRD had any validation may be refused as a whole; the finalizer is not.
        if (!isInvalid(error) || spec === undefined) throw error;
        this.#refusedDefaults.set(rule, uid);
        if (!hasFinalizer) await this.#patch(rule, metadata, undefined, signal);
      }
    }
    await this.#disownDefaults(rule, signal);
  }

  remove(rule: RuleKey): void {
    this.#refusedDefaults.delete(rule);
  }

  /** A separate request, because the server makes the sender of a request the owner of the fields that it changes. */
  async #disownDefaults(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const managedFields = withoutOurSpec(this.#options.mirrors.get(rule)?.metadata.managedFields);
    if (managedFields === undefined) return;
    try {
      await this.#patch(rule, { managedFields }, undefined, signal);
    } catch (error) {
      // A mirror that the CRD refuses today is copied all the same; Keyferry stays the owner of its fields.
      if (!isInvalid(error)) throw error;
    }
  }

  async #patch(rule: RuleKey, metadata: object, spec: object | undefined, signal: AbortSignal): Promise<void> {
    const { api, mirrors } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined) return;
    const { resourceVersion } = mirror.metadata;
    mirrors.storeResponse(await patchMirror(api, mirror, { metadata: { resourceVersion, ...metadata }, spec }, signal));
  }
}
