/**
 * Lists the servers for tests, demo and benchmark, and says how each is built.
 *
 * Their versions are in `<module>/go.mod`. The cache key of a server depends on everything that changes its binary:
 * go.mod, go.sum, the arguments of the build, and the platform. If one of these changes, the server is built again.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

export type ServerName =
  | 'etcd'
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'kubelet'
  | 'pause'
  | 'vault'
  | 'helm'
  | 'helm-4'
  | 'kubectl'
  | 'kustomize'
  | 'external-secrets'
  | 'prometheus'
  | 'promtool'
  | 'terraform'
  | 'terraform-provider-helm';

/** The servers that most tests need, in the order of the builds: a control plane can start while Vault is built. */
export const DEFAULT_SERVERS: readonly ServerName[] = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'vault'];

export interface ServerRecipe {
  readonly name: ServerName;
  /** The folder with go.mod, which pins the version. */
  readonly moduleDir: string;
  /** The server's version in go.mod: `v1.36.3`. */
  readonly version: string;
  /** The Go version that go.mod requires: `1.26.0`. */
  readonly goVersion: string;
  /** The arguments of `go build`, without `-o FILE`. */
  readonly buildArgs: readonly string[];
  /** Environment variables for `go build`. They replace variables of the caller with the same name. */
  readonly buildEnv: Readonly<Record<string, string>>;
  readonly changes: ModuleChanges | undefined;
  /** The server's folder in the cache: name, version, and a hash of everything that changes the binary. */
  readonly cacheKey: string;
}

/** Changes to the source of a Go module, which leave out what tests do not need. They are made in a copy of it. */
export interface ModuleChanges {
  /** The module, as `<module>@<version>`. */
  readonly module: string;
  /** The new content of each file, by its path in the module. */
  readonly files: Readonly<Record<string, string>>;
}

interface Source {
  readonly dir: string;
  /** The module whose version is the server's version. A program from this folder has none, and no version. */
  readonly module?: string;
  readonly pkg: string;
  readonly ldflags: (version: string) => string;
  /** Build tags for `go build`. */
  readonly tags?: string;
  /** @see ModuleChanges.files */
  readonly changes?: Readonly<Record<string, string>>;
}

const strip = (): string => '-s -w';

/** Linker flags that set the version. Without them, the API server reports v0.0.0, and Helm refuses charts. */
function kubernetesVersion(version: string): string {
  const [major, minor] = version.replace(/^v/, '').split('.');
  const set = (field: string, value: string): string => `-X k8s.io/component-base/version.${field}=${value}`;
  return ['-s -w', set('gitVersion', version), set('gitMajor', major ?? ''), set('gitMinor', minor ?? '')].join(' ');
}

/** Prometheus without service discovery. Discovery is most of the program, and tests list their targets. */
function prometheusSource(program: string): Source {
  const module = 'github.com/prometheus/prometheus';
  return { dir: 'prometheus', module, pkg: `${module}/cmd/${program}`, ldflags: strip, tags: 'remove_all_sd' };
}

const SOURCES: Readonly<Record<ServerName, Source>> = {
  etcd: { dir: 'etcd', module: 'go.etcd.io/etcd/server/v3', pkg: 'go.etcd.io/etcd/server/v3', ldflags: strip },
  'kube-apiserver': {
    dir: 'kubernetes',
    module: 'k8s.io/kubernetes',
    pkg: 'k8s.io/kubernetes/cmd/kube-apiserver',
    ldflags: kubernetesVersion,
  },
  'kube-controller-manager': {
    dir: 'kubernetes',
    module: 'k8s.io/kubernetes',
    pkg: 'k8s.io/kubernetes/cmd/kube-controller-manager',
    ldflags: kubernetesVersion,
  },
  'kube-scheduler': {
    dir: 'kubernetes',
    module: 'k8s.io/kubernetes',
    pkg: 'k8s.io/kubernetes/cmd/kube-scheduler',
    ldflags: kubernetesVersion,
  },
  kubelet: {
    dir: 'kubernetes',
    module: 'k8s.io/kubernetes',
    pkg: 'k8s.io/kubernetes/cmd/kubelet',
    ldflags: kubernetesVersion,
  },
  pause: { dir: 'pause', pkg: '.', ldflags: strip },
  kubectl: {
    dir: 'kubectl',
    module: 'k8s.io/kubernetes',
    pkg: 'k8s.io/kubernetes/cmd/kubectl',
    ldflags: kubernetesVersion,
  },
  vault: {
    dir: 'vault',
    module: 'github.com/hashicorp/vault',
    pkg: 'github.com/hashicorp/vault',
    // Vault 1.13 uses internal symbols of Go's runtime. Newer versions of Go allow this only with the last flag.
    ldflags: () => '-s -w -checklinkname=0',
  },
  'external-secrets': {
    dir: 'external-secrets',
    module: 'github.com/external-secrets/external-secrets',
    pkg: '.',
    ldflags: strip,
    changes: {
      // With all providers, the binary has 190 MB and its build takes five minutes. These files register none; main.go
      // registers the provider for Vault itself.
      'pkg/provider/register/register.go': 'package register\n',
      'pkg/generator/register/register.go': 'package register\n',
      'config/crds/bases/embed.go': 'package bases\n\nimport "embed"\n\n//go:embed *.yaml\nvar Files embed.FS\n',
    },
  },
  prometheus: prometheusSource('prometheus'),
  promtool: prometheusSource('promtool'),
  kustomize: {
    dir: 'kustomize',
    module: 'sigs.k8s.io/kustomize/kustomize/v5',
    pkg: 'sigs.k8s.io/kustomize/kustomize/v5',
    ldflags: strip,
  },
  // The last version with the license MPL.
  terraform: {
    dir: 'terraform',
    module: 'github.com/hashicorp/terraform',
    pkg: 'github.com/hashicorp/terraform',
    ldflags: strip,
  },
  // The last version that `go` accepts as a module: the module path of newer versions lacks /v2 or /v3.
  'terraform-provider-helm': {
    dir: 'terraform-provider-helm',
    module: 'github.com/hashicorp/terraform-provider-helm',
    pkg: 'github.com/hashicorp/terraform-provider-helm',
    ldflags: strip,
  },
  helm: { dir: 'helm', module: 'helm.sh/helm/v3', pkg: 'helm.sh/helm/v3/cmd/helm', ldflags: strip },
  // Applies on the server, where Helm 3 compares on the client.
  'helm-4': { dir: 'helm-4', module: 'helm.sh/helm/v4', pkg: 'helm.sh/helm/v4/cmd/helm', ldflags: strip },
};

/**
 * Other versions of a server. The environment variable chooses the version by its value. Without the variable, the
 * server in `SOURCES` is used. `npm run test:matrix` sets the variables.
 */
const CHOICES: Readonly<Record<string, Readonly<Record<string, Partial<Record<ServerName, Source>>>>>> = {
  KEYFERRY_TEST_KUBERNETES: {
    '1.34': {
      'kube-apiserver': { ...SOURCES['kube-apiserver'], dir: 'kubernetes-1.34' },
      'kube-controller-manager': { ...SOURCES['kube-controller-manager'], dir: 'kubernetes-1.34' },
    },
  },
  KEYFERRY_TEST_VAULT: {
    openbao: {
      vault: {
        dir: 'openbao',
        module: 'github.com/openbao/openbao',
        pkg: 'github.com/openbao/openbao',
        // The Go module proxy knows this release only by its commit.
        ldflags: () => `-s -w -X github.com/openbao/openbao/version.fullVersion=${OPENBAO_VERSION}`,
      },
    },
  },
};

/** The release of OpenBao whose commit is in go.mod. */
export const OPENBAO_VERSION = '2.4.0';

/** @throws Error if the variable has an unknown value */
function sourceOf(name: ServerName, env: NodeJS.ProcessEnv): Source {
  for (const [variable, choices] of Object.entries(CHOICES)) {
    const value = env[variable] ?? '';
    const choice = value === '' ? {} : choices[value];
    if (choice === undefined)
      throw new Error(`${variable}=${value}: must be one of ${Object.keys(choices).join(', ')}`);
    const source = choice[name];
    if (source !== undefined) return source;
  }
  return SOURCES[name];
}

/** Whether `vault` is OpenBao, because the environment chooses it. */
export function isOpenBao(env: NodeJS.ProcessEnv = process.env): boolean {
  return sourceOf('vault', env) !== SOURCES.vault;
}

/** The minor version of Kubernetes in this environment: `36` for 1.36. */
export function kubernetesMinor(env: NodeJS.ProcessEnv = process.env): number {
  return Number(serverRecipe('kube-apiserver', env).version.split('.')[1]);
}

export const SERVER_NAMES = Object.keys(SOURCES) as readonly ServerName[];

export function isServerName(name: string): name is ServerName {
  return Object.hasOwn(SOURCES, name);
}

/**
 * How a server is built.
 * @throws Error if go.mod does not pin the server's module, or if the environment names an unknown version
 */
export function serverRecipe(name: ServerName, env: NodeJS.ProcessEnv = process.env): ServerRecipe {
  const source = sourceOf(name, env);
  const moduleDir = path.join(import.meta.dirname, source.dir);
  const goMod = readFileSync(path.join(moduleDir, 'go.mod'), 'utf8');
  const goSum = readFileSync(path.join(moduleDir, 'go.sum'), 'utf8');
  const version = source.module === undefined ? 'v1.0.0' : pinnedVersion(goMod, source.module);
  const goVersion = /^go (\S+)$/m.exec(goMod)?.[1];
  if (version === undefined || goVersion === undefined) {
    throw new Error(`${moduleDir}/go.mod pins no version of ${version === undefined ? source.module : 'Go'}`);
  }
  const tags = source.tags === undefined ? [] : ['-tags', source.tags];
  const buildArgs = ['-trimpath', ...tags, '-ldflags', source.ldflags(version), source.pkg];
  const buildEnv = { CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false -mod=readonly' };
  const changes =
    source.changes && source.module !== undefined
      ? { module: `${source.module}@${version}`, files: source.changes }
      : undefined;
  const programs = readdirSync(moduleDir).filter((file) => file.endsWith('.go'));
  const sources = programs.map((file) => readFileSync(path.join(moduleDir, file), 'utf8'));
  const facts = [buildArgs, buildEnv, process.platform, process.arch, ...(changes === undefined ? [] : [changes])];
  const hash = createHash('sha256');
  for (const part of [goMod, goSum, JSON.stringify(facts), ...sources]) {
    hash.update(part).update('\0');
  }
  const cacheKey = `${name}-${version}-${hash.digest('hex').slice(0, 12)}`;
  return { name, moduleDir, version, goVersion, buildArgs, buildEnv, changes, cacheKey };
}

function pinnedVersion(goMod: string, module: string): string | undefined {
  return new RegExp(`^(?:require)?\\s+${module.replaceAll('.', '\\.')} (v\\S+)`, 'm').exec(goMod)?.[1];
}
