/**
 * The effective spec of a SecretMirror: the spec with defaults, and a list of its problems. Every field is checked
 * here, because an object that is older than the schema of the CRD may have any content.
 */
import { isDeepStrictEqual } from 'node:util';
import { because, type Cause } from '../../../copy/model/cause.ts';
import {
  MIRROR_DEFAULTS,
  type DeletePolicy,
  type DestinationType,
  type SecretMirror,
  type SourceType,
  type VaultBlock,
} from '../api.ts';
import type { VaultAddresses } from '../../../vault/client/server.ts';
import type { VaultLocation } from '../../../copy/vault/locations.ts';
import { type Choices, choicesOf } from './choices.ts';
import { type BlockContext, entryAt, type VaultDefaults, vaultLocation } from './vault-spec.ts';
import { nameProblems } from '../../../runtime/text/dns-names.ts';
import { type NamespaceSelection, selectionOf, type Served } from '../../common/namespaces/selection.ts';
import type { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { destinationTexts, readDestinations } from './destinations.ts';
import { MAX_LIST, type StoredMirror } from './mirror-store.ts';

export interface EffectiveSpec {
  readonly sourceType: SourceType;
  /** `undefined`: the name is invalid. */
  readonly sourceName: string | undefined;
  readonly sourceVault: VaultBlock | undefined;
  /** Location of a source in Vault; `undefined`: the source is not in Vault, or its `vault` block has problems. */
  readonly sourceLocation: VaultLocation | undefined;
  readonly destinationType: DestinationType;
  readonly destinationVault: VaultBlock | undefined;
  /** Location of a destination in Vault; `undefined`: it is not in Vault, or its `vault` block has problems. */
  readonly destinationLocation: VaultLocation | undefined;
  /** The selected namespaces, without invalid patterns. */
  readonly namespaces: NamespaceSelection;
  /** The selected namespaces in the words of the spec: patterns, or for example `selector:tier=prod`. */
  readonly patterns: readonly string[];
  /** The message for the status if no namespace is selected. */
  readonly unmatched: string;
  readonly choices: Choices;
  /** The name of the copies; `undefined`: the name is invalid. */
  readonly copyName: string | undefined;
  readonly isSuspended: boolean;
  readonly deletePolicy: DeletePolicy;
  readonly pollPeriodSeconds: number;
  /** The first mistake with which nothing is written, because copies could be wrong; `undefined`: there is none. */
  readonly halt: string | undefined;
  /** All mistakes; each text begins with the path of its field. The valid part of the spec still applies. */
  readonly problems: readonly string[];
}

export interface SpecOptions {
  /** Whether a Vault login may use a Secret of another namespace. Default: false. */
  readonly crossNamespaceAuth?: boolean;
  /** The Vault servers that mirrors may use. Default: all. */
  readonly vaultAddresses?: VaultAddresses;
  /** Defaults for the fields of a `vault` block. */
  readonly vaultDefaults?: VaultDefaults;
  /** The only namespaces that may contain copies. Default: all. */
  readonly served?: Served | undefined;
}

/** Why a suspended mirror writes nothing. */
export const SUSPENDED: Cause = because('Suspended', 'spec.suspend is true: copies are neither written nor deleted');

/** The problems that the status of a mirror shows: problems of its spec, or the refusal of its evaluation. */
export function problemsWith({ problems, halt }: EffectiveSpec, refusal: Cause | undefined): readonly string[] {
  // If the refusal comes from such a mistake, it is already in `problems`.
  const isKnown = refusal === undefined || refusal === SUSPENDED || halt !== undefined;
  return isKnown ? problems : [refusal.message];
}

/** A mirror as it is stored, or as it was read. */
type AnyMirror = SecretMirror & Partial<StoredMirror>;

export function effectiveSpec(mirror: AnyMirror, patterns: PatternCache, options: SpecOptions = {}): EffectiveSpec {
  const { source, destination } = mirror.spec ?? {};
  const problems: string[] = [];
  const destinationType = destination?.type ?? MIRROR_DEFAULTS.destinationType;
  const isForNamespaces = destinationType === 'namespaces';
  const { tooLongPatterns } = mirror;
  const mistakes: string[] = [];
  if (tooLongPatterns !== undefined) {
    const tooLong = `the patterns have ${tooLongPatterns} characters in total; the maximum is ${MAX_LIST}`;
    mistakes.push(`spec.destination.namespaces: ${tooLong}`);
  }
  const { namespaces, unmatched } =
    isForNamespaces && tooLongPatterns === undefined
      ? readDestinations(destination ?? {}, patterns, options.served, problems)
      : { namespaces: selectionOf([]), unmatched: '' };
  const sourceType = source?.type ?? MIRROR_DEFAULTS.sourceType;
  const choices = choicesOf(destination ?? {}, { from: sourceType, to: destinationType }, patterns, mistakes);
  problems.push(...mistakes);
  const common = blockContext(mirror, options);
  // If the mirror chooses keys, copies ignore all other keys of the entry. So these need not be valid in a Secret.
  const isWhole = destinationType === 'namespaces' && choices.keys === undefined;
  const copyType = isWhole ? destination?.secretType || 'Opaque' : undefined;
  const from = { ...common, field: 'spec.source.vault', secretType: copyType };
  const sourceLocation = sourceType === 'vault' ? vaultLocation(source?.vault, from, problems) : undefined;
  const to = { ...common, field: 'spec.destination.vault', secretType: undefined };
  let destinationLocation = destinationType === 'vault' ? vaultLocation(destination?.vault, to, problems) : undefined;
  // It would rewrite the entry endlessly.
  if (destinationLocation !== undefined && entryAt(sourceLocation) === entryAt(destinationLocation)) {
    problems.push('spec.destination.vault.path: must not be the same entry as spec.source.vault');
    destinationLocation = undefined;
  }
  const poll = mirror.spec?.pollPeriodSeconds ?? 0;
  const name = source?.name || mirror.metadata.name;
  const misnamed = nameProblems('spec.source.name', name);
  problems.push(...misnamed);
  return {
    choices,
    copyName: misnamed.length === 0 ? (choices.name ?? name) : undefined,
    isSuspended: mirror.spec?.suspend === true,
    halt: mistakes[0],
    sourceType,
    sourceName: misnamed.length === 0 ? name : undefined,
    sourceVault: source?.vault,
    sourceLocation,
    destinationType,
    destinationVault: destination?.vault,
    destinationLocation,
    namespaces,
    patterns: isForNamespaces ? destinationTexts(destination ?? {}) : [],
    unmatched,
    deletePolicy: destinationType === 'vault' ? 'retain' : (mirror.spec?.deletePolicy ?? MIRROR_DEFAULTS.deletePolicy),
    pollPeriodSeconds: poll > 0 ? poll : MIRROR_DEFAULTS.pollPeriodSeconds,
    problems,
  };
}

/** The location in a `vault` block of a source, for example of a recorded lease; `undefined`: it has problems. */
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
 * All defaults as a merge patch. Like the original, Keyferry writes them together with the finalizer.
 * @returns `undefined` if no default is missing in the spec
 */
export function missingDefaults(mirror: SecretMirror, spec: EffectiveSpec): Record<string, unknown> | undefined {
  const { source, destination, deletePolicy, pollPeriodSeconds } = mirror.spec ?? {};
  const complete = {
    source: { type: spec.sourceType, name: spec.sourceName ?? source?.name },
    destination: { type: spec.destinationType },
    deletePolicy: spec.deletePolicy,
    pollPeriodSeconds: spec.pollPeriodSeconds,
  };
  const present = {
    source: { type: source?.type, name: source?.name },
    destination: { type: destination?.type },
    deletePolicy,
    pollPeriodSeconds,
  };
  return isDeepStrictEqual(present, complete) ? undefined : complete;
}
