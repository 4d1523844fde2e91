/**
 * Serves one ExternalSecret: reads its entries in Vault, makes the missing values, and writes the result. Each run
 * reads the present state of Vault and of the object, so after a crash the next run completes the work.
 */
import type { Fault } from '../../../copy/model/cause.ts';
import type { ClaimBook } from '../../../copy/book/claim-book.ts';
import { loginKey, type LoginKey, parseRuleKey, type RuleKey } from '../../../copy/model/keys.ts';
import { isSkippedCall, type VaultAccess, type VaultLogin } from '../../../copy/vault/access/access.ts';
import { NotKnownYetError } from '../../../copy/vault/access/credentials.ts';
import { vaultTargetKey } from '../../../copy/vault/locations.ts';
import type { Log } from '../../../observe/log.ts';
import type { Counter, MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue.ts';
import { TimeLimitError } from '../../../runtime/abort.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { KeyedLock } from '../../../runtime/queue/keyed-lock.ts';
import { parseServer } from '../../../vault/client/server.ts';
import { isVaultError } from '../../../vault/errors.ts';
import { type EntryOutcome, makeValues } from './entry.ts';
import { type ConditionMode, type ExternalSecretRule, needOf } from '../request/external-secret.ts';
import { SettingError, type Settings, settingsOf } from '../request/settings.ts';
import { type Place, placesOf } from '../store/store-spec.ts';
import type { Problem } from '../request/requests.ts';
import { found, problemOf, recreating, type Result, resultOf, WRONG_ANNOTATION, wrongSetting } from './result.ts';
import type { Stores } from '../store/stores.ts';
import type { Job, Writes } from './writes.ts';

export interface WorkerOptions {
  readonly rule: (key: RuleKey) => ExternalSecretRule | undefined;
  readonly mode: () => ConditionMode;
  readonly stores: Pick<Stores, 'usableIn' | 'readCa'>;
  readonly vault: Pick<VaultAccess, 'open' | 'close'>;
  readonly book: Pick<ClaimBook, 'on'>;
  readonly writes: Pick<Writes, 'result' | 'announce' | 'heal'>;
  readonly registry: MetricRegistry;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
}

/** The results of a run so far. */
interface Work {
  /** `made`: a value was written, and no result has reported this write yet. */
  readonly outcomes: EntryOutcome[];
  readonly problems: Problem[];
  error: unknown;
  /** A credential is not known yet, because its watch has not listed. Nothing is reported, and another run follows. */
  waits: boolean;
}

/**
 * Time limit of a run, ms. A run that reaches the limit is repeated later. Reason: an author can name 200 slow servers,
 * and the liveness check fails if a worker is busy for minutes.
 */
const RUN_LIMIT_MS = 120_000;
/** Pause before the next check if Vault has the values but ESO still fails, ms. The values may be deleted by then. */
const LOOK_AGAIN_MS = 60_000;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #made: Counter<never>;
  readonly #writers = new KeyedLock();
  /** The logins that each rule uses at present. */
  readonly #users = new Map<RuleKey, Set<LoginKey>>();
  /** The entries of each rule that were written but not yet reported. So the next report still says `Success`. */
  readonly #unreported = new Map<RuleKey, Set<string>>();
  /** Who must act, from the last run. The stored result does not contain this, and a user can forge a result. */
  readonly #faults = new Map<RuleKey, Fault>();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#made = options.registry.counter('keyferry_generator_values_total', 'Values put into Vault.', []);
  }

  /** The person who must act before ESO can read the values. `nobody`: no run has found a problem. */
  faultOf(key: RuleKey): Fault {
    return this.#faults.get(key) ?? 'nobody';
  }

  /** Serves the rule once. @throws an error because of which the run must be repeated */
  async run(key: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { rule: ruleOf, mode, writes } = this.#options;
    const rule = ruleOf(key);
    const need = rule && needOf(rule, mode());
    if (rule !== undefined && need === 'values') return await this.#make({ key, rule, signal });
    this.#useOnly(key, []);
    this.#faults.delete(key);
    if (rule === undefined) {
      this.#unreported.delete(key);
      return undefined;
    }
    const job = { key, rule, signal };
    if (need === 'healing') await writes.heal(job);
    else if (need === 'found') await this.#found(job);
    else if (need === 'setting') await this.#refuse(job, WRONG_ANNOTATION);
    return undefined;
  }

  async #make(job: Job): Promise<RunResult | undefined> {
    const { stores, rule: ruleOf } = this.#options;
    const { key, rule, signal } = job;
    let settings: Settings;
    try {
      settings = settingsOf(rule.annotations);
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      await this.#refuse(job, error.message);
      return undefined;
    }
    const { namespace = '' } = rule.metadata;
    const { wanted, problems } = rule.requests;
    let storeOf: Awaited<ReturnType<Stores['usableIn']>>;
    try {
      storeOf = await stores.usableIn(namespace, wanted, signal);
    } catch (error) {
      const failed = newWork();
      this.#fail(failed, error, { field: `namespace ${namespace}` }, signal);
      await this.#report(job, failed, failed.problems);
      throw error;
    }
    const { places, problems: misplaced } = placesOf(wanted, storeOf);
    this.#useOnly(key, places);
    const work = await this.#workAt(job, places, settings);
    if (work.waits) return undefined;
    const latest = ruleOf(key);
    // If the object was deleted, recreated or changed during the run, another run follows.
    if (latest === undefined || latest.version !== rule.version) return undefined;
    const announced = await this.#announce({ ...job, rule: latest }, work);
    await this.#report(announced, work, [...problems, ...misplaced, ...work.problems]);
    if (work.error !== undefined) throw work.error;
    return { requeueAfterMs: LOOK_AGAIN_MS };
  }

  /** Makes the values in the entries of all stores. If one store fails, the others are still served. */
  async #workAt(job: Job, places: readonly Place[], settings: Settings): Promise<Work> {
    const work = newWork();
    const until = this.#options.clock.monotonic() + RUN_LIMIT_MS;
    for (const place of places) {
      try {
        await this.#workIn(job, place, work, settings, until);
      } catch (error) {
        if (error instanceof TimeLimitError) {
          this.#fail(work, error, { field: 'spec.data' }, job.signal);
          break;
        }
        if (error instanceof NotKnownYetError) {
          work.waits = true;
          continue;
        }
        this.#fail(work, error, { field: place.store.name.replace('/', ' '), auth: place.store.auth }, job.signal);
      }
    }
    return work;
  }

  /** Records a failure as a problem. @throws `error` itself if `problemOf` does not know it, or at an abort */
  #fail(
    work: Work,
    error: unknown,
    { field, auth }: { readonly field: string; readonly auth?: VaultLogin['auth'] },
    signal: AbortSignal,
  ): void {
    const problem = signal.aborted ? undefined : problemOf(error, field, auth);
    if (problem === undefined) throw error;
    work.problems.push(problem);
    work.error = error;
  }

  /** @param until after this time, the run starts no further calls, monotonic ms */
  async #workIn(job: Job, place: Place, work: Work, settings: Settings, until: number): Promise<void> {
    const { vault, stores, clock, log, book } = this.#options;
    const { key, signal } = job;
    const { name: storeName, auth, ca } = place.store;
    const checkTime = (): void => {
      if (clock.monotonic() > until) throw new TimeLimitError('reading and writing the entries', RUN_LIMIT_MS);
    };
    checkTime();
    const user = loginKey(key, storeName);
    getOrCreate(this.#users, key, () => new Set()).add(user);
    const server = parseServer({ ...place.store.server, ...(ca && { caBundle: await stores.readCa(ca, signal) }) });
    const { entries } = await vault.open(user, { server, auth }, signal);
    const { name } = parseRuleKey(key);
    // Finds a rule that copies to one of these paths, and so also writes the entry.
    const writerOf = (paths: readonly string[]): string | undefined =>
      paths.flatMap((path) => book.on(vaultTargetKey({ server, path })))[0]?.claim.owner.title;
    const writers = this.#writers;
    for (const entry of place.entries.values()) {
      checkTime();
      const { path } = entry;
      // Logged only if there is no result yet, so not at each retry.
      if (this.#options.rule(key)?.result === undefined) {
        const text = `${name}: the ExternalSecret is Ready=False, let us create a random password and put it in Vault.`;
        log.info(text, { rule: key, path });
      }
      let outcome: EntryOutcome;
      try {
        const entryKey = vaultTargetKey({ server, path });
        outcome = await makeValues(entries, entry, { settings, writerOf, writers, key: entryKey, signal });
      } catch (error) {
        this.#fail(work, error, { field: entry.values[0]?.field ?? storeName, auth }, signal);
        // If the server does not respond, this run does not try its other entries.
        if (isVaultError(error) && error.transient) return;
        continue;
      }
      if (outcome.made) {
        this.#made.inc({}, outcome.make.length);
        log.info(`${name}: the Vault secret was created.`, { rule: key, path, vault: server.addr });
        getOrCreate(this.#unreported, key, () => new Set()).add(path);
      }
      work.outcomes.push({ ...outcome, made: this.#unreported.get(key)?.has(path) === true });
      work.problems.push(...outcome.problems);
    }
  }

  /** Tells, before the result, that an entry of the last result was gone. @returns the job with the rule as it then is */
  async #announce(job: Job, { outcomes }: Work): Promise<Job> {
    const { writes, log } = this.#options;
    const { metadata, result } = job.rule;
    const isGone = outcomes.some(({ path, existed, make }) => {
      return !existed && make.length > 0 && Object.hasOwn(result?.entries ?? {}, path);
    });
    if (result?.created !== true || !isGone) return job;
    log.warn(
      `${metadata.name}: inconsistency: Created is True but SecretSyncedError is False. Attempting to recreate the secret in Vault to fix this issue.`,
      { rule: job.key },
    );
    return { ...job, rule: await writes.announce(job, recreating(result)) };
  }

  async #report(job: Job, { outcomes, error }: Work, problems: readonly Problem[]): Promise<void> {
    const { key, rule } = job;
    this.#faults.set(key, problems[0]?.fault ?? 'nobody');
    // Keyferry did not call Vault, because an earlier call failed. The result already reports that failure.
    if (isSkippedCall(error) && rule.result?.reason === 'ErrorCreating') return;
    const entries = outcomes.filter((one) => one.problems.length === 0);
    const nested = outcomes.flatMap((one) => one.nested);
    const result = resultOf({ entries, nested, problems }, rule.result);
    if (!result.created && result.message !== rule.result?.message) {
      this.#options.log.warn(`${rule.metadata.name}: vault secret write failed: ${result.message}`, { rule: key });
    }
    await this.#write(job, result);
  }

  async #found(job: Job): Promise<void> {
    const { metadata, result } = job.rule;
    this.#options.log.info(
      `${metadata.name}: turning condition 'Created' from False to True since the external-secrets operator found the secret in Vault.`,
      { rule: job.key },
    );
    await this.#write(job, found(result));
  }

  async #refuse(job: Job, message: string): Promise<void> {
    const { key, rule } = job;
    if (rule.result?.message !== message) {
      const text =
        message === WRONG_ANNOTATION
          ? "the only valid value for the annotation 'create' is 'true'. Skipping."
          : message;
      this.#options.log.warn(`${rule.metadata.name}: ${text}`, { rule: key });
    }
    this.#faults.set(key, 'user');
    await this.#write(job, wrongSetting(message, rule.result));
  }

  async #write(job: Job, result: Result): Promise<void> {
    await this.#options.writes.result(job, result);
    this.#unreported.delete(job.key);
  }

  /** Closes the logins of stores that the rule no longer uses. @param places the stores that it uses */
  #useOnly(key: RuleKey, places: readonly Place[]): void {
    const wanted = new Set(places.map(({ store }) => loginKey(key, store.name)));
    for (const user of this.#users.get(key) ?? []) {
      if (wanted.has(user)) continue;
      this.#options.vault.close(user);
      this.#users.get(key)?.delete(user);
    }
    if (wanted.size === 0) this.#users.delete(key);
  }
}

function newWork(): Work {
  return { outcomes: [], problems: [], error: undefined, waits: false };
}
