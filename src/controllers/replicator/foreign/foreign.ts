/**
 * The objects of copiers that have annotations of their own (reflector, kubernetes-replicator, config-syncer), and what the replicator
 * must be told to go on with them. Each has a file that reads its annotations; the rest is the same for all. Pure.
 *
 * Nothing is removed: the other program's annotations mean nothing to Keyferry, and with them one can go back.
 */
import { type AnnotationNames, annotationNames, type Annotations } from '../annotations.ts';
import { backendOf, parseResourceKey, type ResourceKey, resourceKey } from '../../../copy/model/keys.ts';
import { lengthProblem, type Observed } from '../../../copy/model/observed.ts';
import type { Change, Finding, Found, MigrationContext, ProgramReader, Verdict } from '../../common/migration.ts';
import { isListed } from './namespace-lists.ts';

/** What one object requests of the other program. */
export interface ForeignSource {
  /** Namespaces of the copies, as the replicator lists them. */
  readonly pushesTo?: readonly string[];
  /** Namespaces that may pull: a list of the replicator, or all. */
  readonly allows?: readonly string[] | 'all';
  readonly remarks?: readonly Remark[];
}

export interface Remark {
  readonly verdict: Exclude<Verdict, 'change'>;
  readonly text: string;
}

/** An object that the other program writes. */
export type ForeignCopy =
  /** It made the object. `source`: undefined where its marks do not name one. */
  | { readonly mode: 'push'; readonly source: string | undefined }
  /** A user made the object, and named the source. */
  | { readonly mode: 'pull'; readonly source: string };

/** How the objects of one program are read. */
export interface Foreign extends Pick<ProgramReader, 'program' | 'image'> {
  readonly sourceOf: (observed: Observed) => ForeignSource | undefined;
  readonly copyOf: (observed: Observed) => ForeignCopy | undefined;
}

/** The objects of one program. */
export function foreignReader(foreign: Foreign): ProgramReader {
  const { program, image } = foreign;
  const find = (context: MigrationContext): Promise<Found> => Promise.resolve(new Analysis(foreign, context).found());
  return { program, image, mustBeStopped: true, find };
}

type View = Pick<MigrationContext, 'objects' | 'config'>;

class Analysis {
  readonly #foreign: Foreign;
  readonly #objects: MigrationContext['objects'];
  /** The annotations that Keyferry reads here. */
  readonly #names: AnnotationNames;
  readonly #sources = new Map<ResourceKey, ForeignSource>();
  /** The sources that push, by kind and name: some programs leave no other trace on a copy. */
  readonly #pushers = new Map<string, ResourceKey[]>();
  /** The sources that some object names. */
  readonly #pulledFrom = new Set<ResourceKey>();
  readonly #findings: Finding[] = [];
  readonly #changes: Change[] = [];
  #copies = 0;

  constructor(foreign: Foreign, { objects, config }: View) {
    this.#foreign = foreign;
    this.#objects = objects;
    this.#names = annotationNames(config.replicator.annotationsPrefix);
    for (const [key, observed] of objects) {
      const copy = foreign.copyOf(observed);
      const from = copy?.mode === 'pull' ? this.#keyOf(key, copy.source) : undefined;
      if (from !== undefined) this.#pulledFrom.add(from);
      // A copy may carry the annotations of its source.
      const read = copy === undefined ? foreign.sourceOf(observed) : undefined;
      if (read === undefined) continue;
      const source = tooLong(observed) ?? read;
      this.#sources.set(key, source);
      if (source.pushesTo === undefined) continue;
      const name = kindAndName(key);
      this.#pushers.set(name, [...(this.#pushers.get(name) ?? []), key]);
    }
  }

  found(): Found {
    const rules = this.#sources.size;
    for (const [key, source] of this.#sources) this.#source(key, source);
    for (const [key, observed] of this.#objects) {
      const copy = this.#foreign.copyOf(observed);
      if (copy === undefined) continue;
      this.#copies += 1;
      if (copy.mode === 'push') this.#pushed(key, observed, copy.source);
      else this.#pulled(key, observed, copy.source);
    }
    return { rules, copies: this.#copies, findings: this.#findings, changes: this.#changes };
  }

  #source(key: ResourceKey, { pushesTo, allows, remarks = [] }: ForeignSource): void {
    for (const { verdict, text } of remarks) this.#find(key, verdict, text);
    const names = this.#names;
    const wanted: Record<string, string> = {};
    const texts: string[] = [];
    if (pushesTo !== undefined && pushesTo.length > 0) {
      wanted[names.toNamespaces] = pushesTo.join(',');
      texts.push(`is pushed to ${pushesTo.join(', ')}`);
    }
    // A source that is only pushed need not be opened for everybody.
    if (allows !== undefined && allows.length > 0 && (pushesTo === undefined || this.#pulledFrom.has(key))) {
      if (allows === 'all') wanted[names.allowed] = 'true';
      else wanted[names.allowedNamespaces] = allows.join(',');
      texts.push(`may be pulled from ${allows === 'all' ? 'every namespace' : allows.join(', ')}`);
    }
    this.#change(key, wanted, texts.join(', and '));
  }

  #pushed(key: ResourceKey, observed: Observed, named: string | undefined): void {
    const names = this.#names;
    const [source, ...others] = named === undefined ? this.#pushersOf(key) : [this.#keyOf(key, named)];
    if (others.length > 0) {
      this.#find(key, 'manual', `several sources push this name here; set ${names.by} to the one that it is a copy of`);
      return;
    }
    const known = source === undefined ? undefined : this.#sources.get(source);
    // A user can write any mark. The replicator pushes under the name of the source alone.
    const isPushed =
      source !== undefined &&
      kindAndName(source) === kindAndName(key) &&
      isListed(known?.pushesTo ?? [], parseResourceKey(key).namespace);
    if (!isPushed) {
      const of = named === undefined ? '' : ` of ${named}`;
      const isOpen = known?.remarks?.some(({ verdict }) => verdict !== 'difference') === true;
      const next = isOpen
        ? 'stays as it is until its source has the annotation'
        : 'has no source: delete it if nobody uses it';
      this.#find(key, 'leftover', `a copy${of} that ${next}`);
      return;
    }
    const marked = observed.annotations[names.by];
    if (marked !== undefined) {
      if (marked !== placeOf(source))
        this.#find(key, 'manual', `${names.by} names another source than ${this.#foreign.program}`);
      return;
    }
    this.#change(key, { [names.by]: placeOf(source) }, `is a copy of ${placeOf(source)}`, source);
  }

  #pulled(key: ResourceKey, { annotations }: Observed, named: string): void {
    const names = this.#names;
    const source = this.#keyOf(key, named);
    if (source === undefined) {
      this.#find(key, 'leftover', `${named}, which it is filled from, is not the name of an object`);
      return;
    }
    const allows = this.#sources.get(source)?.allows;
    const allowed = allows === 'all' || (allows !== undefined && isListed(allows, parseResourceKey(key).namespace));
    if (!this.#objects.has(source) || !allowed) {
      const why = this.#objects.has(source) ? 'does not allow it' : 'does not exist';
      this.#find(key, 'leftover', `${named}, which it is filled from, ${why}; it keeps its data`);
      return;
    }
    if (annotations[names.from] === undefined) {
      this.#change(key, { [names.from]: placeOf(source) }, `is filled from ${placeOf(source)}`, source);
    } else if (annotations[names.from] !== placeOf(source)) {
      this.#find(key, 'manual', `${names.from} names another source than ${this.#foreign.program}`);
    }
  }

  /** Adds annotations, unless the object has them. What somebody else wrote there is not replaced. */
  #change(object: ResourceKey, wanted: Annotations, text: string, source?: ResourceKey): void {
    const { annotations = {} } = this.#objects.get(object) ?? {};
    const added = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => annotations[name] !== value));
    if (Object.keys(added).length === 0) return;
    const other = Object.keys(added).find((name) => annotations[name] !== undefined);
    if (other !== undefined) {
      this.#find(object, 'manual', `${other} has another value than "${added[other] ?? ''}"; one of them is wrong`);
      return;
    }
    this.#changes.push({ object, annotations: added, text, ...(source === undefined ? {} : { source }) });
  }

  #find(object: ResourceKey, verdict: Exclude<Verdict, 'change'>, text: string): void {
    const { kind, namespace, name } = parseResourceKey(object);
    this.#findings.push({ verdict, object: { kind, namespace, name }, text });
  }

  /** The sources that push an object of this name to its namespace. */
  #pushersOf(copy: ResourceKey): readonly ResourceKey[] {
    const { namespace } = parseResourceKey(copy);
    return (this.#pushers.get(kindAndName(copy)) ?? []).filter((source) => {
      return source !== copy && isListed(this.#sources.get(source)?.pushesTo ?? [], namespace);
    });
  }

  /** @param named `<namespace>/<name>` */
  #keyOf(beside: ResourceKey, named: string): ResourceKey | undefined {
    const [namespace = '', name = '', ...more] = named.split('/');
    if (namespace === '' || name === '' || more.length > 0) return undefined;
    return resourceKey(backendOf(beside), parseResourceKey(beside).kind, namespace, name);
  }
}

/** The values of very long annotations are not known. @see lengthProblem */
function tooLong({ annotations }: Observed): ForeignSource | undefined {
  for (const [name, value] of Object.entries(annotations)) {
    const problem = lengthProblem(value);
    if (problem !== undefined) return { remarks: [{ verdict: 'manual', text: `${name}: ${problem}` }] };
  }
  return undefined;
}

function kindAndName(key: ResourceKey): string {
  const { kind, name } = parseResourceKey(key);
  return `${kind} ${name}`;
}

function placeOf(key: ResourceKey): string {
  const { namespace, name } = parseResourceKey(key);
  return `${namespace}/${name}`;
}
