/**
 * All permissions that the role manifests in deploy/ grant, in one table. A test compares them. So whoever changes a
 * permission must change this table, too, and reviewers see it.
 */
import { readFileSync } from 'node:fs';

import { callsOf } from './permissions.ts';

/** The permissions in one manifest. */
export interface Granted {
  /** The permissions of each role. The key is kind and name: `ClusterRole keyferry`. */
  readonly roles: Readonly<Record<string, readonly string[]>>;
  /** The ServiceAccount to which all roles are bound, as `namespace/name`. */
  readonly account: string;
  /** Roles that the manifest does not bind. Users bind them in the namespaces that need them. */
  readonly unbound?: readonly string[];
}

const LEASES = ['coordination.k8s.io/leases: get create update'];
/** A CCM reads the uid of this namespace, to notice if the management cluster is the same as its own cluster. */
const IDENTITY = ['core/namespaces kube-system: get'];

export const GRANTED = {
  'rbac.yaml': {
    account: 'keyferry/keyferry',
    roles: {
      'ClusterRole keyferry': [
        'core/namespaces: list watch',
        'core/secrets: get list watch create patch delete',
        'mirrors.kts.studio/secretmirrors: get list watch patch',
        'mirrors.kts.studio/secretmirrors/status: patch',
        'core/events: create patch',
      ],
      'ClusterRole keyferry-replicator': ['core/configmaps: get list watch create patch delete'],
      'ClusterRole keyferry-vault-kubernetes-auth': ['core/serviceaccounts/token: create'],
      'Role keyferry-leader-election': LEASES,
    },
    unbound: ['ClusterRole keyferry-vault-kubernetes-auth'],
  },
  'rbac-generator.yaml': {
    account: 'keyferry/keyferry-generator',
    roles: {
      'ClusterRole keyferry-generator': [
        'external-secrets.io/externalsecrets: list watch patch',
        'external-secrets.io/externalsecrets/status: patch',
        'external-secrets.io/secretstores: list watch',
        'external-secrets.io/clustersecretstores: list watch',
        'apiextensions.k8s.io/customresourcedefinitions externalsecrets.external-secrets.io: get list watch',
        'core/namespaces: get',
        'core/events: create patch',
      ],
      'Role keyferry-generator': LEASES,
    },
  },
  'rbac-generator-credentials.yaml': {
    account: 'keyferry/keyferry-generator',
    roles: {
      'Role keyferry-generator': [
        'core/secrets vault-token: get list watch',
        'core/serviceaccounts/token vault: create',
        'core/configmaps vault-ca: get',
      ],
    },
  },
  'rbac-syncsecret-ccm.yaml': {
    account: 'keyferry/keyferry-syncsecret-ccm',
    roles: {
      'ClusterRole keyferry-syncsecret-ccm': [
        'kubelb.k8c.io/syncsecrets: get list watch patch',
        'kubelb.k8c.io/syncsecrets/status: patch',
        ...IDENTITY,
        'core/events: create patch',
      ],
      'Role keyferry-syncsecret-ccm': LEASES,
    },
  },
  'rbac-syncsecret-synchronizer.yaml': {
    account: 'keyferry/keyferry-syncsecret-ccm',
    roles: {
      'ClusterRole keyferry-syncsecret-synchronizer': [
        'core/secrets: get list watch patch',
        'kubelb.k8c.io/syncsecrets: create delete',
      ],
    },
  },
  'rbac-syncsecret-tenant.yaml': {
    account: 'tenant-primary/keyferry-syncsecret-ccm',
    roles: {
      'ClusterRole keyferry-syncsecret-tenant': IDENTITY,
      'Role keyferry-syncsecret-ccm': ['kubelb.k8c.io/syncsecrets: get list watch create patch delete'],
    },
  },
  'rbac-syncsecret-manager.yaml': {
    account: 'keyferry/keyferry-syncsecret-manager',
    roles: {
      'ClusterRole keyferry-syncsecret-manager': [
        'kubelb.k8c.io/syncsecrets: get list watch patch',
        'kubelb.k8c.io/syncsecrets/status: patch',
        'core/secrets: get list watch create patch delete',
        'core/events: create patch',
      ],
      'Role keyferry-syncsecret-manager': LEASES,
    },
  },
} satisfies Readonly<Record<string, Granted>>;

/** The name of a role manifest in deploy/. */
export type RoleFile = keyof typeof GRANTED;

/** All permissions in these manifests. @param kind - `Role` or `ClusterRole`: only roles of this kind. Default: both */
export function rightsIn(files: readonly RoleFile[], kind = ''): string[] {
  return files.flatMap((file) =>
    Object.entries<readonly string[]>(GRANTED[file].roles).flatMap(([role, rights]) =>
      role.startsWith(kind) ? rights : [],
    ),
  );
}

/** All permissions in these manifests, each as `resource verb`. */
export function callsIn(...files: readonly RoleFile[]): Set<string> {
  return callsOf(rightsIn(files));
}

/** The text of a file in deploy/. */
export function manifest(file: RoleFile): string {
  return readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8');
}
