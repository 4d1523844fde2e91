/** Finds the values that an ExternalSecret requests, and the items that never get a value. Has the result reasons. */
import type { Fault } from '../../../copy/model/cause.ts';
import type { ExternalSecretData, ExternalSecretSpec, StoreReference } from '../api.ts';
import { DECODINGS, type Decoding } from './settings.ts';

export interface StoreRef {
  readonly kind: 'SecretStore' | 'ClusterSecretStore';
  readonly name: string;
}

/** A value that an item of `spec.data` reads. */
export interface WantedValue {
  /** For example `spec.data[0]`. */
  readonly field: string;
  readonly store: StoreRef;
  /** The key as the author wrote it. */
  readonly key: string;
  readonly property: string;
  readonly decoding: Decoding;
}

/** The reasons that the original writes into its condition `Created`. Keyferry uses them with the same meaning. */
const ORIGINAL_REASONS = ['Success', 'ErrorCreating', 'Recreating', 'Exists', 'ErrorAnnotation'] as const;

/** Reasons why no value was made. They are more precise than the original's only reason, `ErrorCreating`. */
const PROBLEM_REASONS = [
  'ErrorCreating',
  /** The generator makes no values for an item of this form, for example without a property. */
  'NotMade',
  'InvalidStore',
  'StoreNotFound',
  /** A ClusterSecretStore does not allow its use in the namespace. */
  'StoreNotAllowed',
  'UnsupportedProvider',
  'UnsupportedAuth',
  /** The latest version of the entry is deleted or destroyed. */
  'Deleted',
  /** A SecretMirror also writes the entry. */
  'Conflict',
] as const;

export type ProblemReason = (typeof PROBLEM_REASONS)[number];
export type Reason = (typeof ORIGINAL_REASONS)[number] | ProblemReason | 'NestedProperty';

const ALL: ReadonlySet<string> = new Set<Reason>([...ORIGINAL_REASONS, ...PROBLEM_REASONS, 'NestedProperty']);

export function isReason(reason: string | undefined): reason is Reason {
  return reason !== undefined && ALL.has(reason);
}

/** A mistake of a user, or a failure, because of which a value cannot be made. */
export interface Problem {
  readonly reason: ProblemReason;
  readonly field: string;
  readonly message: string;
  readonly fault: Fault;
}

/** Makes a problem that the author of the ExternalSecret must solve. */
export function userProblem(reason: ProblemReason, field: string, message: string): Problem {
  return { reason, field, message, fault: 'user' };
}

export interface Requests {
  readonly wanted: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

/** Maximum number of values of one ExternalSecret. */
export const MAX_VALUES = 200;
/** Maximum length of a property, characters. */
const MAX_PROPERTY = 512;

/** The requested values and the problems in a spec. Any field of the spec may be missing, as with an older CRD. */
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
    const message = `has ${data.length} items; values are made only for the first ${MAX_VALUES}`;
    problems.push(userProblem('NotMade', 'spec.data', message));
  }
  if ((spec?.dataFrom?.length ?? 0) > 0) {
    const message = 'no value is made for dataFrom, because it names no property';
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
    return problem('sourceRef.generatorRef', 'no value is made for an item that uses a generator of ESO');
  }
  if (key === '') return problem('remoteRef.key', 'is empty');
  if (property === '') return problem('remoteRef.property', 'no value is made for an item without a property');
  if (property.length > MAX_PROPERTY) {
    return problem('remoteRef.property', `has ${property.length} characters, and at most ${MAX_PROPERTY} are allowed`);
  }
  if (version !== undefined && version !== '') {
    return problem('remoteRef.version', 'no value is made for an item that reads a fixed version');
  }
  if (metadataPolicy === 'Fetch') {
    return problem('remoteRef.metadataPolicy', 'no value is made for an item that reads metadata');
  }
  const decoding = DECODINGS.find((one) => one === (decodingStrategy || 'None'));
  if (decoding === undefined) return problem('remoteRef.decodingStrategy', 'is not a known strategy');
  // If an item has a `sourceRef`, even an empty one, ESO ignores `spec.secretStoreRef`.
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
