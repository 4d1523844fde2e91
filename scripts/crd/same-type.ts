/** Lets the compiler check that a type in Keyferry's source and the type of a schema are the same. */

/**
 * `T` with all fields readonly, at every depth. The types in Keyferry's source have readonly fields; zod's have not.
 */
type Readonlyed<T> = T extends readonly (infer Item)[]
  ? readonly Readonlyed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Readonlyed<T[Key]> }
    : T;
/** True if the types are identical, including which fields are optional. Types that are only assignable are not. */
export type Same<A, B> = Identity<Readonlyed<A>> extends Identity<Readonlyed<B>> ? true : false;
/** TypeScript treats two of these types as equal only if `A` is identical in both. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the comparison needs the parameter
type Identity<A> = <T>() => T extends A ? 1 : 2;
