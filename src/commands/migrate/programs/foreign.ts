/**
 * Plans the migration from another copier (reflector, kubernetes-replicator, config-syncer): which annotations of
 * Keyferry its objects need, so that the replicator continues with its copies. Pure.
 *
 * The annotations of the other copier stay, so that a user may go back. If Keyferry cannot translate an annotation, for
 * example a label selector, the user names the namespaces in an annotation of Keyferry, and that annotation counts.
 */
import { type AnnotationNames, annotationNames, listItems } from '../../../controllers/replicator/rules/annotations.ts';
import { parseResourceKey, type ResourceKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { placeOf } from '../../snapshot/places.ts';
import {
  type Change,
  type Finding,
  leftoverOf,
  type MigrationContext,
  type ProgramFindings,
  type ProgramReader,
} from '../program.ts';
import { isListed } from '../../../controllers/replicator/rules/namespace-lists.ts';
import { permission } from '../../../controllers/replicator/rules/permission.ts';
import {
  type Foreign,
  type ForeignCopy,
  ForeignRequests,
  type ForeignSource,
  keyOf,
  kindAndName,
  nameOf,
} from './requests.ts';

/** A reader for `keyferry migrate`: it finds the problems of a program's objects, and annotations to add to them. */
export function foreignReader(foreign: Foreign): ProgramReader {
  const { program, image } = foreign;
  const find = (context: MigrationContext): Promise<ProgramFindings> =>
    Promise.resolve(new Analysis(foreign, context).found());
  return { program, image, mustBeStopped: true, find };
}

class Analysis {
  readonly #program: Foreign['program'];
  readonly #context: MigrationContext;
  /** The names of Keyferry's annotations under the configured prefix. */
  readonly #names: AnnotationNames;
  readonly #requests: ForeignRequests;
  readonly #findings: Finding[] = [];
  readonly #changes: Change[] = [];

  constructor(foreign: Foreign, context: MigrationContext) {
    this.#program = foreign.program;
    this.#context = context;
    this.#names = annotationNames(context.config.replicator.annotationsPrefix);
    this.#requests = new ForeignRequests(foreign, context.objects);
  }

  found(): ProgramFindings {
    const { sources, copies } = this.#requests;
    for (const [key, source] of sources) this.#source(key, source);
    for (const [key, copy] of copies) {
      if (copy.mode === 'push') this.#pushed(key, copy);
      else this.#pulled(key, copy.source);
    }
    const concerns = (object: ResourceKey): boolean => sources.has(object) || copies.has(object);
    return { rules: sources.size, copies: copies.size, concerns, findings: this.#findings, changes: this.#changes };
  }

  #annotationsOf(key: ResourceKey): Observed['annotations'] {
    return this.#context.objects.get(key)?.annotations ?? {};
  }

  #source(key: ResourceKey, { pushesTo, allows, remarks = [] }: ForeignSource): void {
    const names = this.#names;
    const wanted = new Map<string, { readonly value: string; readonly text: string }>();
    if (pushesTo !== undefined && pushesTo.length > 0) {
      wanted.set(names.toNamespaces, { value: pushesTo.join(','), text: `is pushed to ${pushesTo.join(', ')}` });
    }
    // A source that is pushed gets the permission to be pulled only if an object is filled from it.
    if (allows !== undefined && allows.length > 0 && (pushesTo === undefined || this.#requests.pulledFrom.has(key))) {
      if (allows === 'all') wanted.set(names.allowed, { value: 'true', text: 'may be pulled from every namespace' });
      else {
        const list = allows.join(',');
        wanted.set(names.allowedNamespaces, { value: list, text: `may be pulled from ${allows.join(', ')}` });
      }
    }
    const annotations = this.#annotationsOf(key);
    for (const { verdict, text, answer } of remarks) {
      if (answer === undefined) {
        this.#find(key, verdict, text);
        continue;
      }
      const name = names[answer];
      const given = annotations[name];
      // The user has not named the namespaces: the annotation is missing, or has the value that `--apply` wrote.
      if (given === undefined || given === wanted.get(name)?.value) {
        const rule = verdict === 'unsupported' ? this.#context.copiedBy(key) : undefined;
        if (rule !== undefined) this.#find(key, 'difference', `${rule} copies it already; compare: ${text}`);
        else this.#find(key, verdict, `${text}; name the namespaces in ${name} on it, and run this command again`);
      } else wanted.delete(name);
    }
    const texts = Array.from(wanted.values(), ({ text }) => text);
    const pairs = Array.from(wanted, ([name, { value }]) => [name, value] as const);
    this.#change(key, Object.fromEntries(pairs), texts.join(', and '));
  }

  /** The namespaces that Keyferry pushes a source to: in its `replicate-to-namespaces`, or in the one to be added. */
  #pushesTo(source: ResourceKey): readonly string[] {
    const given = this.#annotationsOf(source)[this.#names.toNamespaces];
    return given === undefined ? (this.#requests.sources.get(source)?.pushesTo ?? []) : listItems(given);
  }

  #pushed(key: ResourceKey, copy: ForeignCopy & { readonly mode: 'push' }): void {
    const names = this.#names;
    const { namespace } = parseResourceKey(key);
    const candidates = copy.source === undefined ? this.#requests.reaching(key) : (keyOf(key, copy.source) ?? []);
    // Marks prove nothing, because users can write them. Only a source with the same kind and name can push this copy.
    const pushers = [candidates].flat().filter((one) => {
      return kindAndName(one) === kindAndName(key) && isListed(this.#requests.patterns, this.#pushesTo(one), namespace);
    });
    const [source] = pushers;
    const marked = this.#annotationsOf(key)[names.by];
    if (pushers.some((one) => nameOf(one) === marked)) return;
    if (source === undefined) this.#unpushed(key, copy, [candidates].flat()[0]);
    else if (pushers.length > 1) {
      this.#find(
        key,
        'manual',
        `several sources push an object of this name into this namespace; set ${names.by} to the source of this copy`,
      );
    } else if (marked !== undefined) {
      this.#find(key, 'manual', `${names.by} names another source than ${this.#program}`);
    } else this.#change(key, { [names.by]: nameOf(source) }, `is a copy of ${nameOf(source)}`, source);
  }

  /** Reports a copy that Keyferry would not push. @param source the object that its marks name, or that may push it */
  #unpushed(
    key: ResourceKey,
    { cluster }: ForeignCopy & { readonly mode: 'push' },
    source: ResourceKey | undefined,
  ): void {
    const { objects, heldBy } = this.#context;
    const place = source === undefined ? '' : nameOf(source);
    const manual = (why: string): void => this.#find(key, 'manual', why);
    if (source === undefined)
      manual(`${this.#program} wrote it, and its marks do not show from which source: it stays as it is`);
    else if (kindAndName(source) !== kindAndName(key))
      manual(`its marks name ${place}, but a copy has the name of its source`);
    else if (objects.has(source)) {
      const advice = `name its namespace in ${this.#names.toNamespaces} on ${place}, and run this command again`;
      manual(
        `a copy of ${place}, whose annotations do not push it into this namespace; to keep it up to date, ${advice}`,
      );
    } else if (cluster === undefined) {
      const { verdict, reason } = leftoverOf(this.#program, 'its source does not exist', heldBy(key));
      this.#find(key, verdict, `marked by ${place}: ${reason}`);
    } else manual(`a copy of ${place} in the cluster "${cluster}", which may be another cluster: it stays as it is`);
  }

  #pulled(key: ResourceKey, named: string): void {
    const names = this.#names;
    const manual = (why: string): void => this.#find(key, 'manual', why);
    const source = keyOf(key, named);
    if (source === undefined) return manual(`${named}, from which it is filled, is not a valid <namespace>/<name>`);
    const from = this.#annotationsOf(key)[names.from];
    if (from === nameOf(source)) return undefined;
    if (from !== undefined) return manual(`${names.from} names another source than ${this.#program}`);
    const allowIt = `name its namespace in ${names.allowedNamespaces} on ${named}, and run this command again`;
    if (!this.#context.objects.has(source))
      return manual(`waits for ${named}, which does not exist; when it exists, ${allowIt}`);
    const place = parseResourceKey(key);
    const allows = this.#requests.sources.get(source)?.allows ?? [];
    const { patterns } = this.#requests;
    const rules = { names, allowAll: this.#context.config.replicator.allowAll, patterns };
    const denial = permission(rules, place, parseResourceKey(source), this.#annotationsOf(source));
    if (allows === 'all' || isListed(patterns, allows, place.namespace) || denial === undefined) {
      return this.#change(key, { [names.from]: nameOf(source) }, `is filled from ${nameOf(source)}`, source);
    }
    return manual(
      `${named}, from which it is filled, does not allow its namespace; its data stays. To keep it up to date, ${allowIt}`,
    );
  }

  /** Plans to add the annotations that the object lacks. If it has one with another value, that becomes a finding. */
  #change(object: ResourceKey, wanted: Observed['annotations'], text: string, source?: ResourceKey): void {
    const annotations = this.#annotationsOf(object);
    const added = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => annotations[name] !== value));
    if (Object.keys(added).length === 0) return;
    const other = Object.keys(added).find((name) => annotations[name] !== undefined);
    if (other !== undefined) {
      this.#find(
        object,
        'manual',
        `${other} has another value than "${added[other] ?? ''}"; one of the two values is wrong`,
      );
      return;
    }
    this.#changes.push({ object, annotations: added, text, ...(source === undefined ? {} : { source }) });
  }

  #find(object: ResourceKey, verdict: Finding['verdict'], text: string): void {
    this.#findings.push({ verdict, object: placeOf(object), text });
  }
}
