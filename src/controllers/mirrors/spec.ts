/**
 * A SecretMirror's spec as it is meant: defaults filled in, problems found. Objects may come from a time before the CRD checked
 * anything, so nothing is taken for granted here.
 */
import {
  FORBIDDEN_SECRET_TYPES,
  MIRROR_DEFAULTS,
  type DeletePolicy,
  type DestinationType,
  type SecretMirror,
  type SourceType,
  type VaultBlock,
} from './api.ts';
import type { VaultAddresses } from '../../vault/addresses.ts';
import type { VaultLocation } from '../../copy/vault/locations.ts';
import { type BlockContext, isSameEntry, type VaultDefaults, vaultLocation } from './vault-spec.ts';
import { type SuspectPattern, suspectPattern } from './misread-patterns.ts';
import { nameProblems } from './names.ts';
import { NamespaceSet } from '../common/namespace-set.ts';
import {
  LEAST_PATTERN_SIZE,
  MAX_PATTERN_SIZE,
  type NamespacePattern,
  type PatternCache,
} from '../common/namespace-patterns.ts';

export interface EffectiveSpec {
  readonly sourceType: SourceType;
  /** `undefined`: what is given cannot be the name of an object. */
  readonly sourceName: string | undefined;
  readonly sourceVault: VaultBlock | undefined;
  /** Where a Vault source is; `undefined` also where its block has problems. */
  readonly sourceLocation: VaultLocation | undefined;
  readonly destinationType: DestinationType;
  readonly destinationVault: VaultBlock | undefined;
  /** Where a Vault destination is; `undefined` also where its block has problems. */
  readonly destinationLocation: VaultLocation | undefined;
  /** To copy to; patterns that cannot be compiled are left out. */
  readonly namespaces: NamespaceSet;
  /** The same, in the order of the spec. */
  readonly matchers: readonly NamespacePattern[];
  readonly patterns: readonly string[];
  /** Those that look like something else than a regular expression. */
  readonly suspects: readonly SuspectPattern[];
  readonly secretType: string | undefined;
  readonly deletePolicy: DeletePolicy;
  readonly pollPeriodSeconds: number;
  /** Each names the field. The rest of the spec is still carried out. */
  readonly problems: readonly string[];
}

export interface SpecOptions {
  /** Whether a credential Secret of another namespace may be used. Default false. */
  readonly crossNamespaceAuth?: boolean;
  /** Which Vaults may be named, and get what. Default: that is not looked at. */
  readonly vaultAddresses?: VaultAddresses;
  /** What a `vault` block means where it says nothing. */
  readonly vaultDefaults?: VaultDefaults;
}

/** The source Secret's name; `undefined`: what is given cannot be the name of an object. For callers that need nothing else of the spec. */
export function sourceSecretOf({ metadata, spec }: SecretMirror): string | undefined {
  const name = nonEmpty(spec?.source?.name) ?? metadata.name;
  return nameProblems('spec.source.name', name).length === 0 ? name : undefined;
}

export function effectiveSpec(mirror: SecretMirror, patterns: PatternCache, options: SpecOptions = {}): EffectiveSpec {
  const { source, destination } = mirror.spec ?? {};
  const problems: string[] = [];
  const destinationType = destination?.type ?? MIRROR_DEFAULTS.destinationType;
  const list = destinationType === 'namespaces' ? (destination?.namespaces ?? []) : [];
  if (destinationType === 'namespaces' && list.length === 0) {
    problems.push('spec.destination.namespaces: destination namespaces are empty');
  }
  const matchers: NamespacePattern[] = [];
  const suspects: SuspectPattern[] = [];
  let size = 0;
  for (const [index, text] of list.entries()) {
    const field = `spec.destination.namespaces[${index}]`;
    if (text === '') {
      problems.push(`${field}: destination namespace #${index} is empty`);
      continue;
    }
    const pattern = patterns.get(text);
    if ('error' in pattern) {
      problems.push(`${field}: destination namespace #${index} has a problem compiling: ${pattern.error}`);
      continue;
    }
    size += pattern.literal === undefined ? Math.max(pattern.size, LEAST_PATTERN_SIZE) : 1;
    if (size > MAX_PATTERN_SIZE) {
      problems.push(`${field}: destination namespaces from #${index} on are left out: the patterns are too complex`);
      break;
    }
    matchers.push(pattern);
    const suspect = suspectPattern(field, text, pattern);
    if (suspect !== undefined) suspects.push(suspect);
  }
  const { secretType } = destination ?? {};
  if (secretType !== undefined && (FORBIDDEN_SECRET_TYPES as readonly string[]).includes(secretType)) {
    problems.push(`spec.destination.secretType: Secrets of type ${secretType} are never created`);
  }
  const sourceType = source?.type ?? MIRROR_DEFAULTS.sourceType;
  const common = blockContext(mirror, options);
  const copyType = destinationType === 'vault' ? undefined : (nonEmpty(secretType) ?? 'Opaque');
  const from = { ...common, field: 'spec.source.vault', secretType: copyType };
  const sourceLocation = sourceType === 'vault' ? vaultLocation(source?.vault, from, problems) : undefined;
  const to = { ...common, field: 'spec.destination.vault', secretType: undefined };
  let destinationLocation = destinationType === 'vault' ? vaultLocation(destination?.vault, to, problems) : undefined;
  if (sourceLocation !== undefined && destinationLocation !== undefined) {
    if (isSameEntry(sourceLocation, destinationLocation)) {
      problems.push('spec.destination.vault.path: names the entry of spec.source.vault itself');
      destinationLocation = undefined;
    }
  }
  const poll = mirror.spec?.pollPeriodSeconds ?? 0;
  const name = nonEmpty(source?.name) ?? mirror.metadata.name;
  const misnamed = nameProblems('spec.source.name', name);
  problems.push(...misnamed);
  return {
    sourceType,
    sourceName: misnamed.length === 0 ? name : undefined,
    sourceVault: source?.vault,
    sourceLocation,
    destinationType,
    destinationVault: destination?.vault,
    destinationLocation,
    namespaces: NamespaceSet.of(matchers),
    matchers,
    patterns: list,
    suspects,
    secretType,
    deletePolicy: destinationType === 'vault' ? 'retain' : (mirror.spec?.deletePolicy ?? MIRROR_DEFAULTS.deletePolicy),
    pollPeriodSeconds: poll > 0 ? poll : MIRROR_DEFAULTS.pollPeriodSeconds,
    problems,
  };
}

/** Where a `vault` block of a mirror's source is, as whom; `undefined` if it has problems. */
export function sourceLocationOf(
  mirror: SecretMirror,
  block: VaultBlock,
  options: SpecOptions = {},
): VaultLocation | undefined {
  return vaultLocation(block, { ...blockContext(mirror, options), field: 'vault', secretType: undefined }, []);
}

function blockContext(
  { metadata }: SecretMirror,
  { crossNamespaceAuth = false, vaultAddresses, vaultDefaults = {} }: SpecOptions,
): Omit<BlockContext, 'field' | 'secretType'> {
  return { home: metadata.namespace ?? '', crossNamespaceAuth, vaultAddresses, vaultDefaults };
}

/**
 * What the original writes back into the spec together with its finalizer: every default, as a merge patch. `undefined`: the
 * spec says it all.
 */
export function missingDefaults(mirror: SecretMirror, spec: EffectiveSpec): Record<string, unknown> | undefined {
  const wanted = {
    source: { type: spec.sourceType, name: spec.sourceName ?? mirror.spec?.source?.name },
    destination: { type: spec.destinationType },
    deletePolicy: spec.deletePolicy,
    pollPeriodSeconds: spec.pollPeriodSeconds,
  };
  const { source, destination, deletePolicy, pollPeriodSeconds } = mirror.spec ?? {};
  const complete =
    source?.type === wanted.source.type &&
    source.name === wanted.source.name &&
    destination?.type === wanted.destination.type &&
    deletePolicy === wanted.deletePolicy &&
    pollPeriodSeconds === wanted.pollPeriodSeconds;
  return complete ? undefined : wanted;
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === '' ? undefined : text;
}
