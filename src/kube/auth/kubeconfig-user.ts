/** A kubeconfig's user: which parts make its credentials. */
import type { Clock } from '../../runtime/clock.ts';
import type { AuthHeaders } from '../connection.ts';
import { basicAuth, type CredentialParts } from './credentials.ts';
import { ExecPlugin, type ExecSpec } from './exec-credential.ts';
import type { FileValue } from './file-value.ts';
import { Fields } from './kubeconfig-fields.ts';
import { bytesOrFile, fileValue, relativeTo } from './kubeconfig-files.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface UserContext {
  readonly cluster: Fields;
  readonly ca: Buffer | FileValue | undefined;
  readonly env: Environment;
  readonly clock: Clock;
}

const EXEC_API_VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
/** Extension of a cluster entry with the configuration for exec plugins. */
const EXEC_EXTENSION = 'client.authentication.k8s.io/exec';

/** @throws KubeconfigError where kubectl refuses the user too, or for features that are not supported */
export function userParts(user: Fields, context: UserContext): CredentialParts {
  const { clock } = context;
  if (user.has('auth-provider')) {
    throw user.error('auth-provider', 'is no longer supported, as in kubectl since 1.26; use an exec plugin instead');
  }
  const token = user.string('token');
  if (token !== undefined && !/^[\x21-\x7e]+$/u.test(token)) {
    throw user.error('token', 'has characters that are not allowed in a token');
  }
  const tokenFile = user.string('tokenFile');
  const username = user.string('username');
  const password = user.string('password');
  if ((token ?? tokenFile) !== undefined && (username ?? password) !== undefined) {
    throw user.error('', 'more than one way to authenticate: a token and a username; only one is allowed');
  }
  const cert = bytesOrFile(user, 'client-certificate', clock);
  const key = bytesOrFile(user, 'client-key', clock);
  if ((cert === undefined) !== (key === undefined)) {
    const missing = cert === undefined ? 'client-certificate' : 'client-key';
    throw user.error(missing, 'is missing: a client certificate needs its key');
  }
  const exec = user.has('exec') ? execSpec(user.fields('exec'), context) : undefined;
  const basic =
    (username ?? password) === undefined ? {} : { Authorization: basicAuth(username ?? '', password ?? '') };
  return {
    headers: { ...impersonation(user), ...basic },
    token,
    tokenFile: tokenFile === undefined ? undefined : fileValue(user, 'tokenFile', tokenFile, clock),
    cert,
    key,
    // As in kubectl, credentials in the file take precedence over those of a plugin.
    plugin: exec === undefined || 'Authorization' in basic ? undefined : new ExecPlugin(exec, clock),
  };
}

function impersonation(user: Fields): AuthHeaders {
  const as = user.string('as');
  const uid = user.string('as-uid');
  const groups = user.strings('as-groups');
  const extra = user.stringLists('as-user-extra');
  if (as === undefined) {
    if (uid === undefined && groups.length === 0 && extra.length === 0) return {};
    throw user.error('as', 'is missing: groups, uid and extra cannot be impersonated without a user');
  }
  return {
    'Impersonate-User': as,
    ...(uid === undefined ? {} : { 'Impersonate-Uid': uid }),
    ...(groups.length === 0 ? {} : { 'Impersonate-Group': groups }),
    ...Object.fromEntries(extra.map(([name, values]) => [`Impersonate-Extra-${encodeURIComponent(name)}`, values])),
  };
}

function execSpec(exec: Fields, { cluster, ca, env }: UserContext): ExecSpec {
  const apiVersion = exec.required('apiVersion');
  if (!EXEC_API_VERSIONS.includes(apiVersion)) {
    const known = EXEC_API_VERSIONS.join(' or ');
    throw exec.error('apiVersion', `must be ${known}, is ${JSON.stringify(apiVersion)}`);
  }
  const mode = exec.string('interactiveMode');
  if (mode === undefined ? apiVersion.endsWith('/v1') : !['Never', 'IfAvailable', 'Always'].includes(mode)) {
    throw exec.error(
      'interactiveMode',
      `must be Never or IfAvailable, is ${mode === undefined ? 'missing' : JSON.stringify(mode)}`,
    );
  }
  if (mode === 'Always') throw exec.error('interactiveMode', 'is Always, but there is no terminal for the plugin');
  const command = exec.required('command');
  const given = exec.list('env').map((value, index) => {
    const entry = new Fields(exec.file, exec.at(`env[${index}]`), value);
    return [entry.required('name'), entry.string('value') ?? ''] as const;
  });
  return {
    field: `${exec.file}: ${exec.path}`,
    apiVersion,
    // A bare name is looked for in PATH, anything with a slash beside the kubeconfig.
    command: command.includes('/') ? relativeTo(exec.file, command) : command,
    args: exec.strings('args'),
    env: { ...env, ...Object.fromEntries(given) },
    installHint: exec.string('installHint'),
    clusterInfo: exec.boolean('provideClusterInfo') ? () => clusterInfo(cluster, ca) : undefined,
  };
}

async function clusterInfo(cluster: Fields, ca: Buffer | FileValue | undefined): Promise<Record<string, unknown>> {
  const bytes = ca === undefined || Buffer.isBuffer(ca) ? ca : await ca.get();
  const extensions = cluster.list('extensions').map((value, index) => {
    return new Fields(cluster.file, cluster.at(`extensions[${index}]`), value);
  });
  const config = extensions.find((entry) => entry.string('name') === EXEC_EXTENSION)?.raw('extension');
  return {
    server: cluster.required('server'),
    'tls-server-name': cluster.string('tls-server-name'),
    'insecure-skip-tls-verify': cluster.boolean('insecure-skip-tls-verify') || undefined,
    'certificate-authority-data': bytes?.toString('base64'),
    'proxy-url': cluster.string('proxy-url'),
    config,
  };
}
