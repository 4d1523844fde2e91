/** A receiver of watch events (watch sink) for tests. It keeps the version of each object. */
import type { KubeObject } from '../../src/kube/api.ts';
import { objectKey, type WatchSink } from '../../src/kube/watch/watcher.ts';

/** Keeps the objects that the server should have according to the watch, and a log of all calls of the watch. */
export class HeldObjects implements WatchSink {
  readonly objects = new Map<string, string>();
  readonly log: string[] = [];

  upsert(object: KubeObject): boolean {
    const { metadata } = object;
    this.objects.set(objectKey(object), metadata.resourceVersion);
    this.log.push(`put ${metadata.name}@${metadata.resourceVersion}`);
    return true;
  }

  remove(gone: KubeObject): void {
    this.objects.delete(objectKey(gone));
    this.log.push(`remove ${gone.metadata.name}`);
  }

  prune(keys: ReadonlySet<string>, resourceVersion: string, namespace?: string): void {
    for (const key of this.objects.keys()) {
      const isListed = namespace === undefined || key.startsWith(`${namespace}/`);
      if (isListed && !keys.has(key)) this.objects.delete(key);
    }
    this.log.push(`prune ${[...keys].join(',')}@${resourceVersion}`);
  }
}
