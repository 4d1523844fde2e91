/** Compares types at compile time: those of a schema with those of the program. */

/** `T` with readonly fields, like the types of the program. */
type Readonlyed<T> = T extends readonly (infer Item)[]
  ? readonly Readonlyed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Readonlyed<T[Key]> }
    : T;
/** True for identical types, optional fields included. Assignability in both directions is not enough. */
export type Same<A, B> = Identity<Readonlyed<A>> extends Identity<Readonlyed<B>> ? true : false;
/** The compiler treats two of these as equal only if their `A` are identical. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the comparison needs the parameter
type Identity<A> = <T>() => T extends A ? 1 : 2;
