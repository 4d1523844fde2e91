/** The values that an ExternalSecret reads, those that are never made, and the reasons of results. Pure. */
import type { Fault } from '../../../copy/model/cause.ts';
import type { ExternalSecretData, ExternalSecretSpec, StoreReference } from '../api.ts';
import { DECODINGS, type Decoding } from './settings.ts';

export interface StoreRef {
  readonly kind: 'SecretStore' | 'ClusterSecretStore';
  readonly name: string;
}

/** One value, read by one item of `spec.data`. */
export interface WantedValue {
  /** `spec.data[0]` */
  readonly field: string;
  readonly store: StoreRef;
  /** As the author wrote it. */
  readonly key: string;
  readonly property: string;
  readonly decoding: Decoding;
}

/** Those of the original's condition `Created`, and their meaning there. */
const ORIGINAL_REASONS = ['Success', 'ErrorCreating', 'Recreating', 'Exists', 'ErrorAnnotation'] as const;

/** Why no value was made, in more detail than the original's `ErrorCreating`. */
const PROBLEM_REASONS = [
  'ErrorCreating',
  /** An item that no values are made for. */
  'NotMade',
  'InvalidStore',
  'StoreNotFound',
  /** A ClusterSecretStore does not admit the namespace. */
  'StoreNotAllowed',
  'UnsupportedProvider',
  'UnsupportedAuth',
  /** The latest version of the entry is deleted or destroyed. */
  'Deleted',
  /** A SecretMirror writes the entry. */
  'Conflict',
] as const;

export type ProblemReason = (typeof PROBLEM_REASONS)[number];
export type Reason = (typeof ORIGINAL_REASONS)[number] | ProblemReason | 'NestedProperty';

const ALL: ReadonlySet<string> = new Set<Reason>([...ORIGINAL_REASONS, ...PROBLEM_REASONS, 'NestedProperty']);

export function isReason(reason: string | undefined): reason is Reason {
  return reason !== undefined && ALL.has(reason);
}

/** Something that no value is made for, or that is wrong. */
export interface Problem {
  readonly reason: ProblemReason;
  readonly field: string;
  readonly message: string;
  readonly fault: Fault;
}

/** A mistake of the author. */
export function userProblem(reason: ProblemReason, field: string, message: string): Problem {
  return { reason, field, message, fault: 'user' };
}

export interface Requests {
  readonly wanted: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

/** Most values of one ExternalSecret. */
export const MAX_VALUES = 200;
/** Longest property, characters. */
const MAX_PROPERTY = 512;

/** Any field may be missing, as in the objects of an older CRD. */
export function requestsOf(spec: ExternalSecretSpec | undefined): Requests {
  const data = spec?.data ?? [];
  const wanted: WantedValue[] = [];
  const problems: Problem[] = [];
  for (const [index, item] of data.slice(0, MAX_VALUES).entries()) {
    const field = `spec.data[${index}]`;
    const request = requestOf(field, item, spec?.secretStoreRef);
    if ('message' in request) problems.push(request);
    else wanted.push(request);
  }
  if (data.length > MAX_VALUES) {
    const message = `has ${data.length} items, and at most ${MAX_VALUES} get values`;
    problems.push(userProblem('NotMade', 'spec.data', message));
  }
  if ((spec?.dataFrom?.length ?? 0) > 0) {
    const message = 'no value is made for it, because it names no property';
    problems.push(userProblem('NotMade', 'spec.dataFrom', message));
  }
  return { wanted, problems };
}

function requestOf(
  field: string,
  { remoteRef = {}, sourceRef }: ExternalSecretData,
  defaultStore: StoreReference | undefined,
): WantedValue | Problem {
  const problem = (part: string, message: string): Problem => userProblem('NotMade', `${field}.${part}`, message);
  const { key = '', property = '', version, metadataPolicy, decodingStrategy } = remoteRef;
  if (sourceRef?.generatorRef !== undefined) {
    return problem('sourceRef.generatorRef', 'no value is made for a generator of ESO');
  }
  if (key === '') return problem('remoteRef.key', 'is empty');
  if (property === '') return problem('remoteRef.property', 'no value is made for an item without a property');
  if (property.length > MAX_PROPERTY) {
    return problem('remoteRef.property', `has ${property.length} characters, and at most ${MAX_PROPERTY} are allowed`);
  }
  if (version !== undefined && version !== '') {
    return problem('remoteRef.version', 'no value is made for a fixed version');
  }
  if (metadataPolicy === 'Fetch') {
    return problem('remoteRef.metadataPolicy', 'no value is made for metadata');
  }
  const decoding = DECODINGS.find((one) => one === (decodingStrategy || 'None'));
  if (decoding === undefined) return problem('remoteRef.decodingStrategy', 'is not a known strategy');
  // ESO does not read the default store where an item has a source, even an empty one.
  const store = storeRefOf(sourceRef === undefined ? defaultStore : sourceRef.storeRef);
  if (store === undefined) {
    const source = sourceRef === undefined ? 'spec.secretStoreRef' : `${field}.sourceRef.storeRef`;
    return userProblem('InvalidStore', source, 'names no store');
  }
  return { field, store, key, property, decoding };
}

function storeRefOf(ref: StoreReference | undefined): StoreRef | undefined {
  if (!ref?.name) return undefined;
  return { kind: ref.kind === 'ClusterSecretStore' ? 'ClusterSecretStore' : 'SecretStore', name: ref.name };
}
