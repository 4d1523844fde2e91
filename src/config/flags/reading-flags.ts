/** The flags of `status` and `plan` that define how rules are read. Their values must be those of the operator. */
import type { ReadingConfig } from '../config.ts';
import type { Flag, FlagTable, FlagValues } from './flags.ts';
import { mirrorsFlags } from './mirrors-flags.ts';
import { replicatorFlags } from './replicator-flags.ts';
import { travelFlags } from './syncsecret-flags.ts';

const replicator = replicatorFlags('replicator-');
const travel = travelFlags('syncsecret-');

/** The keys are the names of the flags in camel case, as the command-line library returns them. */
export const readingFlags = {
  mirrorsRegex: { ...sameAsFor('operator', mirrorsFlags.mirrorsRegex), hint: 'mode' },
  replicatorAnnotationsPrefix: sameAsFor('replicator', replicator.annotationsPrefix),
  replicatorAllowAll: sameAsFor('replicator', replicator.allowAll),
  replicatorIgnoreUnknown: sameAsFor('replicator', replicator.ignoreUnknown),
  replicatorRunReplicators: sameAsFor('replicator', replicator.runReplicators),
  syncsecretPropagateLabels: sameAsFor('CCM and manager', travel.propagateLabels),
  syncsecretPropagateAnnotations: sameAsFor('CCM and manager', travel.propagateAnnotations),
} satisfies FlagTable;

export type ReadingFlags = FlagValues<typeof readingFlags>;

function sameAsFor<T>(runner: string, flag: Flag<T>): Flag<T> {
  return { ...flag, help: `same as for the ${runner}: ${flag.help}` };
}

/** The options of a command, with the settings in place of these flags. */
export function withReadingConfig<Options extends ReadingFlags>(options: Options) {
  const {
    mirrorsRegex: regexMode,
    replicatorAnnotationsPrefix: annotationsPrefix,
    replicatorAllowAll: allowAll,
    replicatorIgnoreUnknown: ignoreUnknown,
    replicatorRunReplicators: runReplicators,
    syncsecretPropagateLabels: propagateLabels,
    syncsecretPropagateAnnotations: propagateAnnotations,
    ...others
  } = options;
  const config: ReadingConfig = {
    mirrors: { regexMode },
    replicator: { annotationsPrefix, allowAll, ignoreUnknown, runReplicators },
    syncsecret: { propagateLabels, propagateAnnotations },
  };
  return { ...others, config };
}
