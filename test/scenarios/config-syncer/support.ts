/** Shared by the scenarios of config-syncer: objects as users and the original write them. */
import { createHash } from 'node:crypto';

import type { Json } from '../../support/api.ts';
import { AnnotatedScene } from '../annotated/support.ts';

export { KINDS, SETTLE_MS } from '../annotated/support.ts';

export const PREFIX = 'kubed.appscode.com';
export const SYNC = `${PREFIX}/sync`;
export const CONTEXTS = `${PREFIX}/sync-contexts`;
export const ORIGIN = `${PREFIX}/origin`;
export const MARK = 'keyferry.dev/synced-from';

export class SyncScene extends AnnotatedScene {
  protected override readonly command: string = 'config-syncer';

  /** A copy as the original makes it. It also copies the annotations that are instructions to other programs. */
  async original(namespace: string, source: Json, given: Json = {}): Promise<Json> {
    const { cluster = '', uid = source.metadata.uid, ...more } = given;
    const { namespace: home, name, labels, annotations, resourceVersion } = source.metadata;
    const copied = Object.entries(annotations ?? {}).filter(([key]) => key !== SYNC && key !== CONTEXTS);
    const origin = JSON.stringify({ namespace: home, name, uid, resourceVersion });
    return await this.api.create({
      ...source,
      metadata: {
        namespace,
        name,
        labels: { ...labels, ...originLabels(home, name, cluster) },
        annotations: { ...Object.fromEntries(copied), [ORIGIN]: origin, ...more.annotations },
      },
    });
  }
}

export function originLabels(namespace: string, name: string, cluster = ''): Record<string, string> {
  return {
    [`${PREFIX}/origin.name`]: shortened(name),
    [`${PREFIX}/origin.namespace`]: namespace,
    [`${PREFIX}/origin.cluster`]: cluster,
  };
}

function shortened(name: string): string {
  return name.length <= 63
    ? name
    : `${name.slice(0, 52)}-${createHash('sha256').update(name).digest('hex').slice(0, 10)}`;
}
