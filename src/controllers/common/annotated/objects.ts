/**
 * The annotated Secrets and ConfigMaps that are the rules of a controller, with the keys `<controller>:<Kind>/<namespace>/<name>`.
 * They are in the index of the cluster already, because it watches them, so they are not stored a second time. Pure.
 */
import {
  type ObjectKey,
  parseResourceKey,
  parseRuleKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleKeyOfKind,
} from '../../../copy/model/keys.ts';
import type { Kind } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';

/** Namespace and name of an object. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** An object that may be a rule. */
export interface AnnotatedObject {
  readonly kind: Kind;
  readonly place: Place;
  /** `undefined`: the object does not exist. */
  readonly observed: Observed | undefined;
}

/** Finds an object in the cache; `undefined`: it does not exist. */
export type FindObject = (kind: Kind, namespace: string, name: string) => Observed | undefined;

interface AnnotatedObjectsOptions {
  /** First part of the rule keys. */
  readonly controller: string;
  /** Name of the cluster that has the objects. */
  readonly cluster: string;
  readonly kinds: readonly Kind[];
  readonly find: FindObject;
}

export class AnnotatedObjects {
  readonly kinds: readonly Kind[];
  readonly #options: AnnotatedObjectsOptions;

  constructor(options: AnnotatedObjectsOptions) {
    this.#options = options;
    this.kinds = options.kinds;
  }

  /** The rule of an object; `undefined`: objects of this kind, or in this cluster, are no rules. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { controller, cluster } = this.#options;
    const place = parseResourceKey(object);
    if (place.cluster !== cluster || this.#kindOf(place.kind) === undefined) return undefined;
    return ruleKeyOfKind(controller, place.kind, place.namespace, place.name);
  }

  /** The object of a rule. @throws TypeError: not a rule key of this controller */
  of(rule: RuleKey): AnnotatedObject {
    const { kind: kindName, namespace, name } = parseRuleKey(rule);
    const kind = this.#kindOf(kindName);
    if (kind === undefined) throw new TypeError(`not a rule key of ${this.#options.controller}: ${rule}`);
    return { kind, place: { namespace, name }, observed: this.#options.find(kind, namespace, name) };
  }

  /** The key of an object of the same kind, in the same cluster, as the object of a rule. */
  keyOf(rule: RuleKey, { namespace, name }: Place): ObjectKey {
    return resourceKey(this.#options.cluster, parseRuleKey(rule).kind, namespace, name);
  }

  #kindOf(name: string): Kind | undefined {
    return this.kinds.find(({ kind }) => kind === name);
  }
}
