/** Compares the types of a schema with the types of the program, at compile time. */

/** `T` with readonly fields at every depth, because the types of the program have readonly fields. */
type Readonlyed<T> = T extends readonly (infer Item)[]
  ? readonly Readonlyed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Readonlyed<T[Key]> }
    : T;
/**
 * True if the types are identical, optional fields included. Types that are assignable to each other may still differ.
 */
export type Same<A, B> = Identity<Readonlyed<A>> extends Identity<Readonlyed<B>> ? true : false;
/** The compiler treats `Identity<A>` and `Identity<B>` as equal only if `A` and `B` are identical. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the comparison needs the parameter
type Identity<A> = <T>() => T extends A ? 1 : 2;
