/**
 * Brings one ExternalSecret up to date: reads the entries of its values in Vault, makes what they lack, and reports the result. Each run starts
 * from what Vault and the object say, so it can be repeated after any crash.
 */
import type { Fault } from '../../../copy/model/cause.ts';
import { type VaultLogin, isSkippedCall, type VaultAccess } from '../../../copy/vault/access/access.ts';
import type { ClaimBook } from '../../../copy/book/claim-book.ts';
import { loginKey, type LoginKey, parseRuleKey, type RuleKey } from '../../../copy/model/keys.ts';
import { NotKnownYetError } from '../../../copy/vault/access/credentials.ts';
import { vaultTargetKey } from '../../../copy/vault/locations.ts';
import type { Log } from '../../../observe/log.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { TimeLimitError } from '../../../runtime/abort.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { isVaultError } from '../../../vault/errors.ts';
import type { VaultServerOptions } from '../../../vault/client/server.ts';
import { settingsOf, SettingError } from '../request/annotations.ts';
import { EntryMaker, type EntryOutcome } from './entry-maker.ts';
import { type ConditionMode, type ExternalSecretRule, needOf } from '../request/external-secret.ts';
import type { Settings } from '../request/format.ts';
import type { GeneratorMetrics } from '../metrics.ts';
import { type Place, type Places, placesOf } from '../request/places.ts';
import type { Problem } from '../request/requests.ts';
import { type EntryState, found, recreating, type Result, resultOf, WRONG_ANNOTATION, wrongSetting } from './result.ts';
import { problemOf } from './run-problems.ts';
import type { StoreAccess } from '../store/store-access.ts';
import type { StoreUser } from '../store/store-spec.ts';
import type { Writes } from './writes.ts';

export interface WorkerOptions {
  readonly rule: (key: RuleKey) => ExternalSecretRule | undefined;
  readonly mode: () => ConditionMode;
  readonly stores: Pick<StoreAccess, 'userOf' | 'sourceFor' | 'readCa'>;
  readonly vault: Pick<VaultAccess, 'open' | 'close'>;
  readonly book: Pick<ClaimBook, 'on'>;
  readonly writes: Pick<Writes, 'result' | 'condition' | 'heal' | 'event' | 'forget'>;
  readonly metrics: GeneratorMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
}

/** A run, and the error for which it is repeated. */
interface Work {
  readonly entries: EntryState[];
  readonly outcomes: (EntryOutcome & { readonly path: string })[];
  readonly problems: Problem[];
  error: unknown;
  /** The watch of a credential is not listed yet. Nothing is said before. */
  waits: boolean;
}

interface Pass {
  readonly dryRun: boolean;
  /** No more calls are begun after this time, monotonic ms. */
  readonly until: number;
  readonly signal: AbortSignal;
}

/**
 * A run that takes longer is repeated, ms. An author may name 200 servers that do not answer, or that answer each call just in time, and
 * the process is not healthy while a worker is busy for minutes.
 */
const RUN_LIMIT_MS = 120_000;
/** Between two looks at values that Vault has and ESO does not see, ms: somebody may have deleted them since. */
const LOOK_AGAIN_MS = 60_000;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #maker = new EntryMaker();
  /** The users of Vault for each rule. */
  readonly #users = new Map<RuleKey, Set<LoginKey>>();
  /** The entries that were written and not reported yet, because the report failed: the next one still says `Success`. */
  readonly #unreported = new Map<RuleKey, Set<string>>();
  /** Of the last run. Not in the result, which anybody may write. */
  readonly #faults = new Map<RuleKey, Fault>();

  constructor(options: WorkerOptions) {
    this.#options = options;
  }

  /** Whose fault it is that ESO cannot read the values. */
  faultOf(key: RuleKey): Fault {
    return this.#faults.get(key) ?? 'nobody';
  }

  /** @throws the error after which the run is to be repeated */
  async run(key: RuleKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const { rule: ruleOf, mode, writes } = this.#options;
    const rule = ruleOf(key);
    const need = rule && needOf(rule, mode());
    if (rule !== undefined && need === 'values') return await this.#make(key, rule, signal);
    this.#release(key);
    this.#faults.delete(key);
    if (rule === undefined) {
      writes.forget(key);
      this.#unreported.delete(key);
    }
    if (rule === undefined) return undefined;
    if (need === 'healing') await writes.heal(key, rule, signal);
    else if (need === 'found') await this.#found(key, rule, signal);
    else if (need === 'setting') await this.#refuse(key, rule, WRONG_ANNOTATION, signal);
    return undefined;
  }

  async #make(key: RuleKey, rule: ExternalSecretRule, signal: AbortSignal): Promise<RunResult | undefined> {
    const { stores, clock } = this.#options;
    let settings: Settings;
    try {
      settings = settingsOf(rule.annotations);
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      await this.#refuse(key, rule, error.message, signal);
      return undefined;
    }
    const { namespace = '' } = rule.metadata;
    const { wanted, problems } = rule.requests;
    const failed = newWork();
    let user: StoreUser | undefined;
    try {
      user = await stores.userOf(namespace, wanted, signal);
    } catch (error) {
      this.#fail(failed, error, { field: `namespace ${namespace}` }, signal);
    }
    if (user === undefined) {
      await this.#report(key, rule, failed, failed.problems, signal);
      throw failed.error;
    }
    const places = placesOf(wanted, stores.sourceFor(namespace), user);
    this.#releaseOthers(key, places);
    // A value that was made before and is missing now was deleted: the user reads that before it is made again.
    const dryRun = isMade(rule.result);
    const until = clock.monotonic() + RUN_LIMIT_MS;
    let work = await this.#workAt(key, places, settings, { dryRun, until, signal });
    if (dryRun && work.outcomes.some(({ decision }) => decision.make.length > 0)) {
      await this.#announce(key, rule, work, signal);
      work = await this.#workAt(key, places, settings, { dryRun: false, until, signal });
    }
    if (work.waits) return undefined;
    const latest = this.#options.rule(key);
    // It was deleted, recreated or changed meanwhile: another run follows.
    if (latest === undefined || latest.version !== rule.version) return undefined;
    await this.#report(key, latest, work, [...problems, ...places.problems, ...work.problems], signal);
    if (work.error !== undefined) throw work.error;
    return { requeueAfterMs: LOOK_AGAIN_MS };
  }

  /** Makes the values in all places. One that fails does not hold up the others. */
  async #workAt(key: RuleKey, { places }: Places, settings: Settings, pass: Pass): Promise<Work> {
    const work = newWork();
    for (const place of places) {
      try {
        await this.#workIn(key, place, settings, work, pass);
      } catch (error) {
        if (error instanceof TimeLimitError) {
          this.#fail(work, error, { field: 'spec.data' }, pass.signal);
          break;
        }
        if (error instanceof NotKnownYetError) {
          work.waits = true;
          continue;
        }
        this.#fail(work, error, { field: place.store.replace('/', ' '), auth: place.login.auth }, pass.signal);
      }
    }
    return work;
  }

  /** Notes a failure. @param where @see problemOf @throws the error if it is not about Vault, the API server or a credential */
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

  async #workIn(
    key: RuleKey,
    place: Place,
    settings: Settings,
    work: Work,
    { dryRun, until, signal }: Pass,
  ): Promise<void> {
    const { vault, stores, metrics, clock, log } = this.#options;
    const checkTime = (): void => {
      if (clock.monotonic() > until) throw new TimeLimitError('reading and writing the entries', RUN_LIMIT_MS);
    };
    checkTime();
    const user = loginKey(key, place.store);
    getOrCreate(this.#users, key, () => new Set()).add(user);
    const ca = place.ca && (await stores.readCa(place.ca, signal));
    const server = { ...place.login.server, ...(ca !== undefined && { caBundle: ca }) };
    const { entries } = await vault.open(user, { server, auth: place.login.auth }, signal);
    const { name } = parseRuleKey(key);
    const writerOf = (paths: readonly string[]): string | undefined => this.#writerOf(server, paths);
    for (const entry of place.entries) {
      checkTime();
      // Once, and not again for each try.
      if (!dryRun && this.#options.rule(key)?.result === undefined) {
        log.info(`${name}: the ExternalSecret is Ready=False, let us create a random password and put it in Vault.`, {
          rule: key,
          path: entry.path,
        });
      }
      const entryKey = vaultTargetKey({ server, path: entry.path });
      let outcome: EntryOutcome;
      try {
        outcome = await this.#maker.make(entries, entry, { settings, key: entryKey, writerOf, dryRun, signal });
      } catch (error) {
        this.#fail(work, error, { field: entry.values[0]?.field ?? place.store, auth: place.login.auth }, signal);
        // The server may answer for other entries, unless it does not answer at all.
        if (isVaultError(error) && error.transient) return;
        continue;
      }
      const { decision, version, createdTime, made } = outcome;
      if (made) {
        metrics.made(decision.make.length);
        log.info(`${name}: the Vault secret was created.`, { rule: key, path: entry.path, vault: server.addr });
        getOrCreate(this.#unreported, key, () => new Set()).add(entry.path);
      }
      work.outcomes.push({ ...outcome, path: entry.path });
      work.problems.push(...decision.problems);
      const isNews = this.#unreported.get(key)?.has(entry.path) === true;
      if (decision.problems.length > 0) continue;
      work.entries.push({ path: entry.path, version, createdTime, made: isNews });
    }
  }

  /** The rule that copies to one of these paths. */
  #writerOf(server: VaultServerOptions, paths: readonly string[]): string | undefined {
    for (const path of paths) {
      for (const { claim } of this.#options.book.on(vaultTargetKey({ server, path }))) return claim.owner.title;
    }
    return undefined;
  }

  async #announce(key: RuleKey, rule: ExternalSecretRule, { outcomes }: Work, signal: AbortSignal): Promise<void> {
    const { writes, log, mode } = this.#options;
    const isGone = outcomes.some(({ path, existed, decision }) => {
      return !existed && decision.make.length > 0 && Object.hasOwn(rule.result?.entries ?? {}, path);
    });
    if (!isGone) return;
    const result = recreating(rule.result);
    log.warn(
      `${rule.metadata.name}: inconsistency: Created is True but SecretSyncedError is False. Attempting to recreate the secret in Vault to fix this issue.`,
      { rule: key },
    );
    writes.event(key, rule, result);
    if (mode() === 'allowed') await writes.condition(key, rule, result, signal);
  }

  async #report(
    key: RuleKey,
    rule: ExternalSecretRule,
    { entries, outcomes, error }: Work,
    problems: readonly Problem[],
    signal: AbortSignal,
  ): Promise<void> {
    const nested = outcomes.flatMap(({ decision }) => decision.nested);
    this.#faults.set(key, problems[0]?.fault ?? 'nobody');
    // Vault was not called again because of the failure that was reported already.
    if (isSkippedCall(error) && rule.result?.reason === 'ErrorCreating') return;
    const result = resultOf({ entries, nested, problems }, rule.result);
    if (!result.created && result.message !== rule.result?.message) {
      this.#options.log.warn(`${rule.metadata.name}: vault secret write failed: ${result.message}`, { rule: key });
    }
    await this.#write(key, rule, result, signal);
  }

  async #found(key: RuleKey, rule: ExternalSecretRule, signal: AbortSignal): Promise<void> {
    const { name } = rule.metadata;
    this.#options.log.info(
      `${name}: turning condition 'Created' from False to True since the external-secrets operator found the secret in Vault.`,
      { rule: key },
    );
    await this.#write(key, rule, found(rule.result), signal);
  }

  async #refuse(key: RuleKey, rule: ExternalSecretRule, message: string, signal: AbortSignal): Promise<void> {
    if (rule.result?.message !== message) {
      const text =
        message === WRONG_ANNOTATION
          ? "the only valid value for the annotation 'create' is 'true'. Skipping."
          : message;
      this.#options.log.warn(`${rule.metadata.name}: ${text}`, { rule: key });
    }
    this.#faults.set(key, 'user');
    await this.#write(key, rule, wrongSetting(message, rule.result), signal);
  }

  async #write(key: RuleKey, rule: ExternalSecretRule, result: Result, signal: AbortSignal): Promise<void> {
    const { writes, mode, metrics } = this.#options;
    const isNews = await writes.result(key, rule, result, mode(), signal);
    this.#unreported.delete(key);
    if (isNews) metrics.written(result.reason);
  }

  #releaseOthers(key: RuleKey, { places }: Places): void {
    const wanted = new Set(places.map(({ store }) => loginKey(key, store)));
    for (const user of this.#users.get(key) ?? []) {
      if (wanted.has(user)) continue;
      this.#options.vault.close(user);
      this.#users.get(key)?.delete(user);
    }
  }

  #release(key: RuleKey): void {
    for (const user of this.#users.get(key) ?? []) this.#options.vault.close(user);
    this.#users.delete(key);
  }
}

function newWork(): Work {
  return { entries: [], outcomes: [], problems: [], error: undefined, waits: false };
}

/** A value was made before. If it is missing now, somebody deleted it. */
function isMade(result: Result | undefined): boolean {
  return result?.created === true && Object.keys(result.entries).length > 0;
}
