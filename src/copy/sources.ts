/** Where content comes from: the seam between targets and the many kinds of source. */
import type { SourceView } from './claim.ts';
import type { Content } from './content.ts';
import type { HolderKey } from './keys.ts';
import type { Gist } from './plan.ts';

export interface SourceReader {
  /** What is known of a source without any I/O. */
  view(source: HolderKey | undefined): SourceView;
  /** The gist of its content at the version of its view, if it has been read. */
  gist(source: HolderKey | undefined): Gist | undefined;
  /** The content at the version of its view or newer; after it, view and gist are as new. `undefined`: it is gone. */
  load(source: HolderKey, signal: AbortSignal): Promise<Content | undefined>;
}
