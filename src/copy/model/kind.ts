/** The kinds of objects that the engine copies, and their fields with content. All other fields are metadata. */
import { randomInt } from 'node:crypto';
import { parseResourceKey, type ResourceKey } from './keys.ts';

/** A field of the object that holds content: a map of keys to values. */
export interface ContentField {
  readonly name: string;
  /** Encoding of the values in JSON. */
  readonly encoding: 'base64' | 'text';
}

export interface Kind {
  readonly kind: string;
  readonly apiVersion: string;
  /** Path of the API group: `/api/v1`. */
  readonly groupPath: string;
  readonly plural: string;
  /** The short name that kubectl takes. */
  readonly shortName?: string;
  /** The fields with content, in the order in which they are written. The first one is written even if it is empty. */
  readonly fields: readonly [ContentField, ...ContentField[]];
  /** A field whose texts replace values of the first field, key by key, as `stringData` does in a Secret. */
  readonly overlay?: string;
  /** Whether objects of this kind have a `type`. */
  readonly typed: boolean;
  /** The type of an object that has no type of its own. */
  readonly defaultType?: string;
  /**
   * The kind is a custom resource that only describes content. So its type and `immutable` can be changed in place,
   * every type is allowed, and its status is a subresource.
   */
  readonly isCustom?: true;
  /** The least content that the API server accepts for this type: values by field and key. */
  minimal(type: string): Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Path of the collection of this kind in the namespace of `key`. */
export function collectionPath({ groupPath, plural }: Kind, key: ResourceKey): string {
  return `${groupPath}/namespaces/${parseResourceKey(key).namespace}/${plural}`;
}

export function objectPath(kind: Kind, key: ResourceKey): string {
  return `${collectionPath(kind, key)}/${parseResourceKey(key).name}`;
}

const utf8 = (text: string): string => Buffer.from(text).toString('base64');

const ALPHANUMERICS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** A random password, because a server might accept an empty one. As long as in k8s-replicator. */
function randomPassword(): string {
  return Array.from({ length: 128 }, () => ALPHANUMERICS.charAt(randomInt(ALPHANUMERICS.length))).join('');
}

export const SECRET: Kind = {
  kind: 'Secret',
  apiVersion: 'v1',
  groupPath: '/api/v1',
  plural: 'secrets',
  fields: [{ name: 'data', encoding: 'base64' }],
  typed: true,
  minimal(type) {
    switch (type) {
      case 'kubernetes.io/dockercfg':
        return { data: { '.dockercfg': utf8('{}') } };
      case 'kubernetes.io/dockerconfigjson':
        return { data: { '.dockerconfigjson': utf8('{}') } };
      case 'kubernetes.io/basic-auth':
        return { data: { password: utf8(randomPassword()), username: '' } };
      case 'kubernetes.io/ssh-auth':
        return { data: { 'ssh-privatekey': utf8('empty') } };
      case 'kubernetes.io/tls':
        return { data: { 'tls.crt': '', 'tls.key': '' } };
      default:
        return { data: {} };
    }
  },
};

export const CONFIG_MAP: Kind = {
  kind: 'ConfigMap',
  apiVersion: 'v1',
  groupPath: '/api/v1',
  plural: 'configmaps',
  shortName: 'cm',
  fields: [
    { name: 'data', encoding: 'text' },
    { name: 'binaryData', encoding: 'base64' },
  ],
  typed: false,
  minimal: () => ({ data: {} }),
};

/**
 * Types of Secrets that Keyferry never creates, because users choose the content. For a Secret of the first type, the
 * control plane issues a token of any ServiceAccount in the namespace (CVE-2026-42876 in External Secrets Operator).
 * With a Secret of the second type, a node can join the cluster.
 */
export const FORBIDDEN_TYPES: readonly string[] = [
  'kubernetes.io/service-account-token',
  'bootstrap.kubernetes.io/token',
];

export function isForbiddenType(type: string): boolean {
  return FORBIDDEN_TYPES.includes(type);
}
