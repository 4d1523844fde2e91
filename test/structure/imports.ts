/** Finds all imports in the source files, and compares them with the rules in docs/architecture.md. */
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

export interface SourceFile {
  /** Path from the project's root, with forward slashes: `src/kube/http.ts`. */
  readonly file: string;
  readonly text: string;
}

interface Import {
  readonly specifier: string;
  /** Whether it is an `import type …`. Such an import does not exist at run time. */
  readonly isType: boolean;
}

/** The other folders of src/ that a folder may import. `types`: folders from which it may import only types. */
interface Layer {
  readonly imports: readonly string[];
  readonly types?: readonly string[];
}

const LAYERS: Readonly<Record<string, Layer>> = {
  runtime: { imports: [] },
  observe: { imports: ['runtime'] },
  http: { imports: ['runtime'] },
  kube: { imports: ['runtime', 'observe', 'http'] },
  vault: { imports: ['runtime', 'observe', 'http'] },
  copy: { imports: ['runtime', 'observe', 'kube', 'vault'] },
  controllers: { imports: ['runtime', 'observe', 'kube', 'vault', 'copy'], types: ['config'] },
  config: { imports: ['runtime', 'observe'] },
  operator: { imports: ['runtime', 'observe', 'kube', 'vault', 'copy', 'controllers', 'config'] },
  commands: { imports: ['runtime', 'observe', 'kube', 'vault', 'copy', 'controllers', 'config'] },
  cli: { imports: ['runtime', 'observe', 'kube', 'vault', 'copy', 'controllers', 'config', 'operator', 'commands'] },
};

/** Imports that a part of a folder must not have. (Unit tests may have them.) */
interface Seam {
  readonly of: RegExp;
  readonly forbidden: RegExp;
  /** Files that the part may import all the same. */
  readonly but?: RegExp;
  /** Files from which the part may import types all the same. */
  readonly types?: RegExp;
  readonly why: string;
}

const SEAMS: readonly Seam[] = [
  {
    of: /^copy\/(model|book|plan)\//,
    forbidden: /^(kube|vault|copy)\//,
    but: /^copy\/(model|book|plan)\/|^kube\/errors\.ts$/,
    types: /^kube\/api\.ts$/,
    why: 'copy/model, copy/book and copy/plan are pure',
  },
  {
    of: /^copy\/engine\//,
    forbidden: /^(vault|copy\/cluster|copy\/vault)\//,
    why: 'the engine uses backends by copy/engine/backend.ts alone',
  },
  { of: /^copy\/cluster\//, forbidden: /^(vault|copy\/vault)\//, why: 'copy/cluster does not use Vault' },
  {
    of: /^copy\/vault\//,
    forbidden: /^copy\/cluster\//,
    // Secrets in this store hold the credentials for Vault, and copies of dynamic credentials.
    types: /^copy\/cluster\/objects\/store\.ts$/,
    why: 'Vault uses the store of Secrets, and nothing else of a cluster',
  },
  {
    of: /^controllers\/[^/]+\/(rules\/(?:[^/]*-)?rule-set\.ts|(rules|shape|words)\.ts|shape\/)/,
    forbidden: /^(kube|vault|copy)\//,
    but: /^copy\/(model|book|plan)\/|^copy\/engine\/life\/(condition|rule-store|warnings)\.ts$/,
    types:
      /^copy\/cluster\/watch\/namespaces\.ts$|^copy\/engine\/controller\.ts$|^copy\/vault\/access\/access\.ts$|^kube\/api\.ts$/,
    why: 'rules, shapes and words are pure',
  },
  {
    of: /^controllers\/common\//,
    forbidden: /^controllers\/(?!common\/)/,
    why: 'controllers/common imports no controller',
  },
  {
    // Only commands read what the rules of a controller say.
    of: /^(?!controllers\/|commands\/readers\/)/,
    forbidden: /^controllers\/(?!common\/|list\.ts$)/,
    why: 'controllers are reached by controllers/list.ts',
  },
];

/** Packages that Keyferry must not import: packages of types, and programs with which tests compare Keyferry. */
const DEVELOPMENT_ONLY = ['@kubernetes/client-node', 'zod'];

export function readSources(root: string): SourceFile[] {
  return globSync('src/**/*.ts', { cwd: root }).map((file) => ({
    file: file.split(path.sep).join('/'),
    text: readFileSync(path.join(root, file), 'utf8'),
  }));
}

/** One line of text for each import that breaks a rule. */
export function violations(sources: readonly SourceFile[]): string[] {
  return sources.flatMap(({ file, text }) =>
    importsOf(text).flatMap((found) => {
      const why = found.specifier.startsWith('.') ? judgeOwn(file, found) : judgePackage(file, found);
      return why === undefined ? [] : [`${file} imports ${found.specifier}: ${why}`];
    }),
  );
}

/** The files that import each other in a circle, types included: one list of files for each group of such files. */
export function circles(sources: readonly SourceFile[]): string[][] {
  const next = new Map(
    sources.map(({ file, text }) => [
      file,
      importsOf(text).map(({ specifier }) => path.posix.join(path.posix.dirname(file), specifier)),
    ]),
  );
  const reachable = (from: string): Set<string> => {
    const found = new Set<string>();
    const walk = (file: string): void => {
      for (const to of next.get(file) ?? []) {
        if (found.has(to)) continue;
        found.add(to);
        walk(to);
      }
    };
    walk(from);
    return found;
  };
  const reach = new Map(Array.from(next.keys(), (file) => [file, reachable(file)]));
  const groups = [...reach].flatMap(([file, others]) =>
    others.has(file) ? [[...others].filter((other) => reach.get(other)?.has(file) === true).toSorted()] : [],
  );
  return [...new Map(groups.map((group) => [group.join(' '), group])).values()];
}

/** All imports in a source file: static, dynamic, for side effects only, and in `export … from`. */
export function importsOf(text: string): Import[] {
  const code = text.replaceAll(/\/\*[^]*?\*\//g, '');
  const from = [...code.matchAll(/^\s*(?:import|export)\s+(type\s+)?(?:[^;'"]*?\s+from\s+)?['"]([^'"]+)['"]/gm)];
  const dynamic = [...code.matchAll(/\b(?:import|require)\(\s*['"]([^'"]+)['"]/g)];
  return [
    ...from.map(([, type, specifier]) => ({ specifier: specifier ?? '', isType: type !== undefined })),
    ...dynamic.map(([, specifier]) => ({ specifier: specifier ?? '', isType: false })),
  ];
}

function judgeOwn(file: string, { specifier, isType }: Import): string | undefined {
  const target = path.posix.join(path.posix.dirname(file), specifier);
  // Unit tests may import helpers of tests, and scripts. Keyferry itself may not.
  if (/^(test|scripts)\//.test(target) && file.endsWith('.test.ts')) return undefined;
  if (target.startsWith('test/')) return 'src never imports test/';
  // Only these files describe the reports of commands and the custom resources, so their types come from there.
  if (isType && ['scripts/reports/schemas.ts', 'scripts/crd/types.ts'].includes(target)) return undefined;
  // The page has a bundle of its own, which only its command loads. Its types say what the two exchange.
  if (isType && target === 'ui/data.ts') return undefined;
  if (file === 'src/commands/ui.ts' && target === 'ui/server/show-page.ts') return undefined;
  // package.json is not code. The scripts do not exist at run time.
  if (!target.startsWith('src/')) return 'outside src/';
  const [from, to] = [folderOf(file), folderOf(target)];
  const layer = LAYERS[from];
  if (layer === undefined) return `the folder src/${from} has no place in the rule (test/structure/imports.ts)`;
  if (from === to || layer.imports.includes(to))
    return file.endsWith('.test.ts') ? undefined : judgeSeam(file, target, isType);
  if (layer.types?.includes(to) === true) return isType ? undefined : `${from} may import ${to} as types only`;
  return `${from} may not import ${to}`;
}

function judgeSeam(file: string, target: string, isType: boolean): string | undefined {
  const [own, other] = [file.slice('src/'.length), target.slice('src/'.length)];
  const seam = SEAMS.find((one) => one.of.test(own) && isForbidden(one, other, isType));
  if (seam !== undefined) return seam.why;
  return isOtherController(own, other) ? 'controllers do not import each other' : undefined;
}

function isForbidden({ forbidden, but, types }: Seam, target: string, isType: boolean): boolean {
  if (!forbidden.test(target) || but?.test(target) === true) return false;
  return !(isType && types?.test(target) === true);
}

/** Whether a controller imports another controller. (All controllers may import `controllers/common/`.) */
function isOtherController(file: string, target: string): boolean {
  const [from, to] = [controllerOf(file), controllerOf(target)];
  return from !== undefined && to !== undefined && to !== 'common' && from !== to;
}

function controllerOf(file: string): string | undefined {
  return /^controllers\/([^/]+)\//.exec(file)?.[1];
}

function judgePackage(file: string, { specifier, isType }: Import): string | undefined {
  if (isType || file.endsWith('.test.ts')) return undefined;
  const named = DEVELOPMENT_ONLY.find((name) => specifier === name || specifier.startsWith(`${name}/`));
  return named === undefined ? undefined : `${named} may be imported as types only`;
}

function folderOf(file: string): string {
  return file.split('/')[1] ?? '';
}
