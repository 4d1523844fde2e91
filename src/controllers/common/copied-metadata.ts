/** Labels and annotations on copies, for all controllers whose copies get those of their source. */
import { userCause } from '../../copy/model/cause.ts';
import type { DesiredState } from '../../copy/model/claim.ts';
import { lengthProblem, MAX_KEPT } from '../../copy/model/observed.ts';

/** The stored metadata of the copy is incomplete, so it cannot be compared with the desired state. */
export const TOO_LARGE: DesiredState = {
  kind: 'fail',
  ...userCause(
    'TooLarge',
    `the copy has more than ${MAX_KEPT / 1024} KiB of labels or annotations from other clients; Keyferry does not change it`,
  ),
};

/** The labels or annotations that reach a copy: those that `isCopied`, except values that were too long to keep. */
export function copiedMetadata(
  map: Readonly<Record<string, string>>,
  isCopied: (key: string, value: string) => boolean,
): Record<string, string> {
  const entries = Object.entries(map).filter(([key, value]) => {
    return isCopied(key, value) && lengthProblem(value) === undefined;
  });
  return Object.fromEntries(entries);
}
