/**
 * What SecretMirrors from and to Vault need besides copying: which entries they use, the events and metrics of their leases, and
 * the end of a lease with its mirror.
 *
 * The end of a lease is asked for when the copies are gone, in the background, for a few seconds at most (`REVOKE_LIMIT_MS`): then
 * the mirror goes whatever became of it, and the lease ends with its time. Its record is kept in `#farewells`:
 *   none ──▶ asking ──answered, or given up──▶ done ──the mirror is gone──▶ none
 */
import type { Engine } from '../../copy/engine.ts';
import type { HolderKey, RuleKey } from '../../copy/keys.ts';
import { parseHolderKey } from '../../copy/keys.ts';
import type { KubeStore } from '../../copy/kube-store.ts';
import type { VaultTrouble } from '../../copy/vault-access.ts';
import type { LeaseKeeper, VaultBackend } from '../../copy/vault-backend.ts';
import { vaultSourceKey, vaultTargetKey, type VaultUse } from '../../copy/vault-holder.ts';
import type { LeaseEvent, LeaseTrace } from '../../copy/vault-leases.ts';
import type { MirrorMetrics } from '../../observe/mirror-metrics.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror } from './api.ts';
import { mirrorName, type MirrorStore } from './mirror-store.ts';
import type { EffectiveSpec } from './spec.ts';
import type { MirrorEvent } from './status.ts';

export interface MirrorVaultOptions {
  readonly engine: Engine;
  readonly backend: VaultBackend;
  readonly secrets: KubeStore;
  readonly mirrors: MirrorStore;
  readonly metrics: MirrorMetrics;
  readonly recordEvent: (mirror: SecretMirror, event: MirrorEvent) => void;
  /** A lease of a mirror that goes could not be ended; it ends with its time. */
  readonly onLeftLease: (mirror: string, leaseId: string, error: unknown) => void;
}

const REVOKE_LIMIT_MS = 3000;

/** Of one mirror; one that comes under its name has its own. */
interface Farewell {
  readonly uid: string;
  done: boolean;
}

export class MirrorVault implements LeaseKeeper {
  readonly #options: MirrorVaultOptions;
  readonly #farewells = new Map<RuleKey, Farewell>();

  constructor(options: MirrorVaultOptions) {
    this.#options = options;
    options.backend.setKeeper(this);
  }

  sourceOf({ sourceLocation }: EffectiveSpec): HolderKey | undefined {
    return sourceLocation === undefined ? undefined : vaultSourceKey(sourceLocation);
  }

  targetOf({ destinationLocation }: EffectiveSpec): HolderKey | undefined {
    return destinationLocation === undefined ? undefined : vaultTargetKey(destinationLocation);
  }

  trouble(source: HolderKey): VaultTrouble | undefined {
    return this.#options.backend.trouble(source);
  }

  /** Tells the backend which entries a mirror uses. */
  use(rule: RuleKey, spec: EffectiveSpec): void {
    const { sourceLocation, destinationLocation, pollPeriodSeconds: pollSeconds } = spec;
    const uses: VaultUse[] = [];
    if (sourceLocation !== undefined) {
      uses.push({ key: vaultSourceKey(sourceLocation), location: sourceLocation, pollSeconds });
    }
    if (destinationLocation !== undefined) {
      uses.push({ key: vaultTargetKey(destinationLocation), location: destinationLocation, pollSeconds });
    }
    this.#options.backend.holders.set(rule, uses);
  }

  /** The mirror uses nothing any more. */
  release(rule: RuleKey): void {
    this.#options.backend.holders.set(rule, []);
    if (this.#options.mirrors.get(rule) === undefined) this.#farewells.delete(rule);
  }

  /** @returns whether the mirror may go; if not, its status is touched when it may */
  farewell(rule: RuleKey, mirror: SecretMirror, spec: EffectiveSpec): boolean {
    const known = this.#farewells.get(rule);
    if (known?.uid === mirror.metadata.uid) return known.done;
    const { engine, backend } = this.#options;
    const leaseId = mirror.status?.vaultSource?.leaseID;
    const { sourceLocation } = spec;
    if (leaseId === undefined || sourceLocation === undefined || spec.deletePolicy === 'retain') return true;
    // Others live by the same credentials.
    for (const other of backend.holders.users(vaultSourceKey(sourceLocation))) if (other !== rule) return true;
    const farewell: Farewell = { uid: mirror.metadata.uid, done: false };
    this.#farewells.set(rule, farewell);
    void backend
      .revoke(sourceLocation, leaseId, REVOKE_LIMIT_MS)
      .catch((error: unknown) => {
        this.#options.onLeftLease(mirrorName(rule), leaseId, error);
      })
      .finally(() => {
        // Kept for as long as the mirror is there, which somebody may have let go meanwhile.
        farewell.done = true;
        engine.touchStatus(rule);
      });
    return false;
  }

  *tracesOf(key: HolderKey): Iterable<LeaseTrace> {
    const { engine, backend, secrets, mirrors } = this.#options;
    for (const rule of backend.holders.users(key)) {
      const { leaseID, leaseDuration = 0, tokenExpirationTime } = mirrors.get(rule)?.status?.vaultSource ?? {};
      const tokenEnd = Date.parse(tokenExpirationTime ?? '');
      const traces = new Map<string, { seconds: number; copies: HolderKey[] }>();
      // What the status names comes first: copies may be of an older lease.
      if (leaseID !== undefined) traces.set(leaseID, { seconds: leaseDuration, copies: [] });
      for (const copy of engine.ownedBy(rule)) {
        const { namespace, name } = parseHolderKey(copy);
        const annotations = secrets.index.get(namespace, name)?.annotations ?? {};
        const leaseId = annotations[MIRROR_ANNOTATIONS.vaultLeaseId];
        if (leaseId === undefined) continue;
        const seconds = secondsOf(annotations[MIRROR_ANNOTATIONS.vaultLeaseDuration]);
        const trace = traces.get(leaseId) ?? { seconds, copies: [] };
        trace.copies.push(copy);
        traces.set(leaseId, trace);
      }
      for (const [leaseId, { seconds, copies }] of traces) {
        const tokenExpiresAt = leaseId === leaseID && !Number.isNaN(tokenEnd) ? tokenEnd : undefined;
        yield { leaseId, durationSeconds: seconds, tokenExpiresAt, copies };
      }
    }
  }

  onLease(key: HolderKey, event: LeaseEvent): void {
    const { engine, backend, mirrors, metrics, recordEvent } = this.#options;
    const addr = backend.holders.get(key)?.target.addr ?? '';
    for (const rule of backend.holders.users(key)) {
      const mirror = mirrors.get(rule);
      if (mirror === undefined) continue;
      const name = mirrorName(rule);
      if (event.type === 'granted') {
        const message = `Fetched new credentials under the lease ${event.leaseId}`;
        recordEvent(mirror, { type: 'Normal', reason: 'VaultNewCreds', message });
      } else if (event.type === 'renewed') {
        recordEvent(mirror, { type: 'Normal', reason: 'VaultLeaseRenew', message: 'Renewed lease successfully' });
        metrics.leaseRenewed(name, addr);
      } else if (event.type === 'renewFailed') {
        metrics.leaseRenewFailed(name, addr, event.httpStatus);
      }
      engine.touchStatus(rule);
    }
  }
}

/** The annotation is anybody's to write. 0: not known. */
function secondsOf(text = ''): number {
  return /^\d{1,10}$/u.test(text) ? Number(text) : 0;
}
