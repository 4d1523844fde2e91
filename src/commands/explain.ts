/** `keyferry explain`: why one object exists, whose it is, and when it was written, or why it does not exist. Writes nothing. */
import { KINDS } from '../controllers/common/snapshot/inventory.ts';
import { EXIT_DONE, type ExplainOptions } from './actions.ts';
import { explanationOf } from './explain/explanation.ts';
import { explanationText } from './explain/report.ts';
import { readStored, subjectOf } from './explain/subject.ts';
import {
  type CommandContext,
  type CommandResult,
  readSnapshot,
  requireSomeReach,
  ruleCollections,
} from './output/reading.ts';
import { reportText } from './output/text.ts';

/** @throws UsageError for an unknown kind or a bad name, and the errors of `api.request` */
export async function explain(
  context: CommandContext,
  { kind, place, output, config }: ExplainOptions,
): Promise<CommandResult> {
  const { api, cluster, paint, signal } = context;
  const subject = subjectOf(kind, place, [...KINDS, ...(await ruleCollections())]);
  const { collection, namespace } = subject;
  const [stored, snapshot] = await Promise.all([
    readStored(api, subject, signal),
    readSnapshot(context, { config, namespace }),
  ]);
  requireSomeReach(snapshot);
  const ruleNames = [...snapshot.readers.values()].find((reader) => reader.collection === collection)?.ruleNames;
  const explanation = await explanationOf({ snapshot, clusterName: api.cluster, cluster, stored, ruleNames }, subject);
  const text = output === 'table' ? explanationText(explanation, paint) : reportText(explanation, output);
  return { text, code: EXIT_DONE };
}
