/**
 * Replaces a copy that cannot be updated (another type, immutable, made by another controller): the old copy is deleted
 * and a new copy is created. A policy, quota or webhook may refuse the new copy. Then the old copy must not be lost:
 *
 *   dry run of the new copy ──refused──▶ the old copy stays
 *      └─accepted──▶ keep the old copy in memory ──▶ delete it ──▶ create the new copy ──created──▶ forget the old copy
 *                                                                    └─refused──▶ create the old copy again
 *
 * - An old copy stays in memory until another object with its name exists, or no rule claims the target.
 * - A crash loses the old copies in memory. If they take more than `KEPT_BYTES`, some are lost, too. The rule then
 *   still creates the new copy, or reports why it cannot.
 */
import { ApiError, isAlreadyExists, isNamespaceTerminating } from '../../../kube/errors.ts';
import { ByteCache } from '../../../runtime/maps.ts';
import type { Claim, DesiredObject } from '../../model/claim.ts';
import type { Content } from '../../model/content.ts';
import { failureOf } from '../../model/cause.ts';
import type { ObjectKey, RuleKey } from '../../model/keys.ts';
import type { KubeStore } from '../objects/store.ts';
import type { ObjectWriter } from './object-writer.ts';
import { LAST_APPLIED, observe, type Observed } from '../../model/observed.ts';

/** Limit of all old copies, bytes: enough for 8 replacements at once of the largest Secrets for etcd (1.5 MiB). */
const KEPT_BYTES = 12 * 1024 * 1024;

interface OldCopy {
  readonly uid: string;
  /** Labels and annotations as they were read, because `Observed` lacks long values. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly content: Content;
  readonly immutable: boolean;
}

type OnCreate = (target: ObjectKey, verb: 'create', ok: boolean, rule: RuleKey | undefined) => void;

export class Replacements {
  readonly #store: KubeStore;
  readonly #writer: ObjectWriter;
  readonly #onWrite: OnCreate;
  readonly #old = new ByteCache<OldCopy>({ maxBytes: KEPT_BYTES });

  constructor(store: KubeStore, writer: ObjectWriter, onWrite: OnCreate) {
    this.#store = store;
    this.#writer = writer;
    this.#onWrite = onWrite;
  }

  /**
   * Does a dry run of the creation, and keeps the old copy in memory if it still has the version `observed`.
   * @returns the old copy as the server has it now, perhaps in another version; `null`: it is gone
   * @throws ApiError the server's refusal of the new copy
   */
  async prepare(
    target: ObjectKey,
    observed: Observed,
    { claim, desired, content }: { readonly claim: Claim; readonly desired: DesiredObject; readonly content: Content },
    signal: AbortSignal,
  ): Promise<Observed | null> {
    try {
      // The server asks policies and webhooks before it checks the name. So after AlreadyExists they accept the copy.
      await this.#writer.create(target, desired, content, signal, { dryRun: true });
    } catch (error) {
      if (!isAlreadyExists(error)) {
        if (!isNamespaceTerminating(error)) this.#onWrite(target, 'create', false, claim.owner.key);
        throw error;
      }
    }
    const read = await this.#store.read(target, signal);
    if (read === undefined) return null;
    const there = observe(read.metadata);
    if (there.resourceVersion === observed.resourceVersion) {
      const { content: held, immutable } = read;
      const { uid, labels = {}, annotations = {} } = read.metadata;
      const { [LAST_APPLIED]: _, ...kept } = annotations;
      this.#old.set(target, { uid, labels, annotations: kept, content: held, immutable }, held.weight);
    }
    return there;
  }

  /**
   * Creates the old copy again.
   * @param refused the error with which the server refused the new copy; `undefined`: no refusal
   * @returns whether an old copy was in memory
   * @throws ApiError whose message has the refusals of the new and of the old copy
   */
  async restore(target: ObjectKey, refused: unknown, signal: AbortSignal): Promise<boolean> {
    const old = this.#old.get(target);
    if (old === undefined) return false;
    const { labels, annotations } = old;
    const desired: DesiredObject = { kind: 'be', labels, annotations, bookkeeping: {}, data: 'source' };
    using request = this.#store.index.beginRequest(target);
    try {
      const { meta } = await this.#writer.create(target, desired, old.content, signal, { immutable: old.immutable });
      this.#onWrite(target, 'create', true, undefined);
      request.storeResponse(meta);
    } catch (error) {
      this.#onWrite(target, 'create', false, undefined);
      if (!(refused instanceof ApiError)) throw error;
      const message = `${refused.statusMessage}; the old copy could not be created again: ${failureOf(error).message}`;
      throw refused.reworded({ message });
    }
    this.forget(target);
    return true;
  }

  /** Whether an old copy is in memory, and no object has its name. @param there the object with its name, if known */
  isPending(target: ObjectKey, there: Observed | undefined): boolean {
    const old = this.#old.get(target);
    if (old !== undefined && there !== undefined && there.uid !== old.uid) this.forget(target);
    return old !== undefined && there === undefined;
  }

  forget(target: ObjectKey): void {
    this.#old.delete(target);
  }
}
