/** The types of the custom resources, from the schemas of their CRDs. Keyferry's source imports them as types only. */
import type { z } from 'zod';
import type { secretMirrorSpec, secretMirrorStatus } from './secret-mirror.ts';
import type { syncSecret } from './sync-secret.ts';

/** `T` with all fields readonly, at every depth. */
type Readonlyed<T> = T extends readonly (infer Item)[]
  ? readonly Readonlyed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Readonlyed<T[Key]> }
    : T;

export type MirrorSpec = Readonlyed<z.input<typeof secretMirrorSpec>>;
export type MirrorStatusFields = Readonlyed<z.input<typeof secretMirrorStatus>>;
/** SyncSecrets have all fields at the root. */
export type SyncSecretFields = Readonlyed<z.input<typeof syncSecret>>;
