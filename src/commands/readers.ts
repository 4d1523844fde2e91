/** The table of the readers of controllers. Only commands load them, which saves the operator memory. */
import type { ControllerName } from '../config/controllers.ts';
import { GeneratorReader } from './readers/generator.ts';
import { MirrorReader } from './readers/mirrors.ts';
import { ReplicatorReader } from './readers/replicator.ts';
import { SyncSecretReader } from './readers/syncsecret.ts';
import type { ControllerReader } from './snapshot/reader.ts';

/** Controllers with the same first word, as `syncsecret`, share one. Keyferry looks for their marks in this order. */
const READERS: ReadonlyMap<string, ControllerReader> = new Map<string, ControllerReader>([
  ['replicator', ReplicatorReader],
  ['mirrors', MirrorReader],
  ['syncsecret', SyncSecretReader],
  ['generator', GeneratorReader],
]);

/** The readers of these controllers. Default: all. */
export function controllerReaders(controllers?: readonly ControllerName[]): ControllerReader[] {
  const isAsked = (system: string): boolean => controllers?.some((name) => name.split('-')[0] === system) ?? true;
  return [...READERS].flatMap(([system, Reader]) => (isAsked(system) ? Reader : []));
}
