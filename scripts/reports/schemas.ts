/**
 * Schemas of the reports that `keyferry status`, `plan`, `explain`, `migrate` and `version` print with `-o json` and
 * `-o yaml`. They give the commands the types of their reports, and tests validate real output with them. The JSON
 * Schemas in docs/schemas/ are generated from them.
 *
 * Here, an unknown field is an error. The JSON Schemas for users allow unknown fields, because later releases may add
 * fields to the same version of a report.
 */
import { z } from 'zod';
import { MIGRATED_PROGRAMS } from '../../src/config/migrated-programs.ts';

const apiVersion = z
  .literal('keyferry.dev/v1')
  .meta({ description: 'Version of this format. Within a version, fields are added, but never changed or removed.' });

const place = {
  kind: z.string().meta({ description: 'Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
};

const copy = {
  ...place,
  sourceVersion: z
    .string()
    .meta({ description: 'Version of the source in the copy; empty for sources without versions.' }),
};

const failing = z.strictObject({
  ...place,
  state: z.enum(['pending', 'waiting', 'conflict', 'error']).meta({
    description:
      'pending: the target is out of date, and Keyferry will write it. waiting: a precondition is missing. conflict: the target has another owner. error: the target cannot be written.',
  }),
  reason: z.string().meta({ description: 'Machine-readable reason in one word.' }),
  message: z.string().meta({ description: 'Human-readable message.' }),
});

const rule = z.strictObject({
  system: z.string().meta({ description: 'mirrors or replicator.' }),
  kind: z.string().meta({ description: 'Kind of the rule: SecretMirror, Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
  source: z.string().meta({
    description:
      'secret NAMESPACE/NAME, configmap NAMESPACE/NAME, syncsecret NAMESPACE/NAME, vault HOST/PATH, or the kind and name of the store of an ExternalSecret. “in tenant” after it: an object of the tenant cluster, for a copy in the management cluster.',
  }),
  destinations: z
    .array(z.string())
    .meta({ description: 'As in the rule: patterns, names, exclusions after “except”, or a location in Vault.' }),
  state: z.string().meta({
    description:
      'Pending, Active or Error; Deleting, Outdated, Waiting, Suspended, Ignored; Unknown if Keyferry has not reconciled the rule yet, or if the user has no right to read its state.',
  }),
  ready: z.boolean().meta({ description: 'Whether all copies are up to date.' }),
  reason: z.string().meta({ description: 'Machine-readable reason in one word.' }),
  message: z
    .string()
    .meta({ description: 'Human-readable message. It may list only some of many namespaces; failing lists all.' }),
  lastSyncTime: z
    .string()
    .nullable()
    .meta({ description: 'RFC 3339; null if there was no sync. For a SyncSecret: since when it is synced.' }),
  copies: z.array(z.strictObject(copy)).meta({ description: 'Existing copies.' }),
  failing: z.array(failing).meta({ description: 'All targets that are not up to date.' }),
  warnings: z.array(z.string()).meta({
    description: 'Patterns that match no namespace and look like a mistake. The rule may be ready all the same.',
  }),
});

export const statusSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Status'),
  cluster: z.string().meta({ description: 'Host of the API server.' }),
  systems: z.array(
    z.strictObject({
      system: z.string(),
      installed: z.boolean().meta({ description: 'Whether the API of the system is installed.' }),
    }),
  ),
  leaders: z
    .array(
      z.strictObject({
        namespace: z.string(),
        name: z.string(),
        holder: z.string().nullable().meta({
          description:
            'The identity in the Lease: the name of the Pod (outside a cluster, of the host), an underscore, and more. null: nobody holds it.',
        }),
        since: z.string().nullable().meta({ description: 'RFC 3339; since when it holds the Lease.' }),
        expired: z.boolean().meta({
          description:
            'Whether the holder did not renew the Lease in time, by the clock of the machine of this command.',
        }),
      }),
    )
    .meta({ description: 'The Leases of leader election; empty if there is none.' }),
  notes: z.array(z.string()).meta({ description: 'Objects that could not be read, and why.' }),
  rules: z.array(rule),
  orphans: z
    .array(
      z.strictObject({
        system: z.string(),
        ...copy,
        owner: z.string().meta({ description: 'Owner in the mark of the copy: NAMESPACE/NAME.' }),
        reason: z.string().meta({ description: 'Why the copy has no rule, and whether Keyferry deletes it.' }),
        verdict: z.enum(['leftover', 'manual']).optional().meta({
          description:
            'Of a copy of an original, as in the output of migrate: leftover: its source is gone or does not want it, and keyferry migrate --delete-leftovers deletes it. manual: that is not known. Absent: Keyferry decides on it.',
        }),
      }),
    )
    .meta({ description: 'Copies without a rule.' }),
});

const plannedAction = z.enum(['create', 'update', 'replace', 'delete', 'nothing', 'conflict', 'wait', 'fail']);

const plannedTarget = z.strictObject({
  system: z.string().meta({ description: 'mirrors or replicator.' }),
  action: plannedAction,
  ...place,
  rule: z.string().meta({
    description: 'Kind, namespace and name of the rule that has the target, or whose claim is in conflict.',
  }),
  reason: z.string(),
  lost: z.boolean().meta({ description: 'Whether data would be lost: a copy is deleted or cleared.' }),
});

export const planSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Plan'),
  targets: z
    .array(plannedTarget)
    .meta({ description: 'Targets that would change or be refused; with --all also unchanged targets.' }),
  problems: z
    .array(z.strictObject({ rule: z.string(), problem: z.string() }))
    .meta({ description: 'Problems of the manifests.' }),
  notes: z.array(z.strictObject({ rule: z.string(), note: z.string() })).meta({
    description: 'Remarks on a rule besides its targets: why it has none, or which part the plan does not cover.',
  }),
  unchanged: z.int().meta({ description: 'Number of unchanged targets.' }),
  ignored: z.int().meta({ description: 'Number of objects in the manifests that Keyferry does not use.' }),
});

const claimant = {
  system: z.string(),
  rule: z.string().meta({ description: 'Kind, namespace and name of the rule.' }),
  source: z.string().nullable().meta({ description: 'As in the rules of status; null if it is not known.' }),
  destinations: z.array(z.string()),
};

export const explainSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Explanation'),
  cluster: z.string().meta({ description: 'Host of the API server.' }),
  object: z.strictObject({
    ...place,
    kind: z.string().meta({ description: 'Secret, ConfigMap, or the kind of a rule.' }),
    exists: z.boolean().nullable().meta({ description: 'null: the user has no right to read it.' }),
    created: z.string().nullable().meta({ description: 'RFC 3339.' }),
    deleting: z.boolean(),
  }),
  verdict: z
    .enum(['copy', 'filled', 'conflict', 'missing', 'orphan', 'rule', 'source', 'unrelated', 'absent', 'unknown'])
    .meta({
      description:
        'copy: a rule claims it, and it has the mark of that rule. filled: an object of a user, and a rule fills its data. conflict: a rule claims it, but it is another’s. missing: a rule claims it, but it does not exist. orphan: it has the mark of a rule that does not claim it. rule: a rule, and no copy. source: no copy, and a rule makes copies of it. unrelated: it exists, and no rule concerns it. absent: it does not exist, and no rule claims it. unknown: the user has no right to read it.',
    }),
  summary: z.string().meta({ description: 'The verdict in one sentence.' }),
  owner: z.string().nullable().meta({ description: 'The rule that has the object, or would get it.' }),
  source: z.string().nullable().meta({ description: 'The source of the owner.' }),
  heldVersion: z.string().nullable().meta({ description: 'Version of the source in the object; null if it has none.' }),
  sourceVersion: z.string().nullable().meta({ description: 'Present version of the source; null if it is not known.' }),
  next: z
    .strictObject({ action: plannedAction, reason: z.string() })
    .nullable()
    .meta({ description: 'What Keyferry would do with the object now; null if no rule concerns it.' }),
  lastWritten: z.string().nullable().meta({ description: 'When Keyferry last wrote it, RFC 3339; null: never.' }),
  writers: z
    .array(
      z.strictObject({
        manager: z.string().meta({ description: 'Name of the client in metadata.managedFields.' }),
        time: z.string().nullable().meta({ description: 'Of its last write, RFC 3339.' }),
        wrote: z
          .enum(['content', 'metadata', 'status'])
          .meta({ description: 'What it wrote: all but metadata and status is content.' }),
      }),
    )
    .meta({ description: 'The last write of each client, the newest first.' }),
  claims: z
    .array(
      z.strictObject({
        ...claimant,
        state: z.enum(['pending', 'synced', 'waiting', 'conflict', 'error', 'released']),
        reason: z.string(),
        message: z.string(),
      }),
    )
    .meta({ description: 'The rules that claim the object.' }),
  others: z
    .array(z.strictObject({ ...claimant, why: z.string() }))
    .meta({ description: 'Rules that make objects of this kind and name, but not this one.' }),
  rule: rule.nullable().meta({ description: 'The object as a rule, as in status; null if it is none.' }),
  sourceOf: z.array(z.strictObject({ rule: z.string(), copies: z.int() })).meta({
    description:
      'The rules that ask for copies of the object, each with the number of copies that exist. Targets that are not read, as entries of Vault, count as copies.',
  }),
  notes: z.array(z.string()).meta({ description: 'What could not be read, and remarks on the rule.' }),
});

export const migrateSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Migration'),
  cluster: z.string().meta({ description: 'Host of the API server.' }),
  programs: z
    .array(
      z.strictObject({
        program: z.enum(MIGRATED_PROGRAMS).meta({ description: 'The name that --from takes.' }),
        rules: z.int().meta({ description: 'Number of objects that request copies.' }),
        copies: z.int().meta({ description: 'Number of objects that the program made or fills.' }),
        running: z.array(z.string()).meta({ description: 'Deployments in which the program runs: NAMESPACE/NAME.' }),
        findings: z.array(
          z.strictObject({
            verdict: z.enum(['change', 'manual', 'difference', 'leftover', 'unsupported']).meta({
              description:
                'change: --apply writes it. manual: somebody must decide or write something. difference: it goes on, but not in the same way. leftover: a copy whose source is gone or does not want it, which --delete-leftovers deletes. unsupported: Keyferry cannot do it.',
            }),
            object: z.strictObject({
              kind: z.string(),
              namespace: z.string().meta({ description: 'Empty for an object without a namespace.' }),
              name: z.string(),
            }),
            text: z.string(),
            annotations: z
              .record(z.string(), z.string())
              .nullable()
              .meta({ description: 'The annotations that a change adds; null if it adds none.' }),
            result: z
              .enum(['written', 'deleted', 'failed', 'skipped'])
              .nullable()
              .meta({ description: 'Of a change, with --apply; of a leftover, with --delete-leftovers.' }),
            error: z.string().nullable().meta({ description: 'Why it failed or was skipped.' }),
          }),
        ),
      }),
    )
    .meta({ description: 'The programs that have objects in the cluster, or run there.' }),
  targets: z.array(plannedTarget).meta({
    description: 'What Keyferry will do when it starts, with the changes, without copies that keep their data.',
  }),
  unchanged: z.int().meta({ description: 'Number of copies that keep their data.' }),
  notes: z.array(z.string()).meta({ description: 'What could not be read.' }),
});

export const versionSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Version'),
  version: z.string().meta({ description: 'Version of Keyferry; dev if it is not built.' }),
  commit: z.string().meta({
    description:
      'Git commit that it was built from, with -dirty if files differed from it; unknown without a checkout.',
  }),
  node: z.string().meta({ description: 'Version of Node that runs it.' }),
  platform: z.string().meta({ description: 'Operating system and architecture, in the words of Node: linux/x64.' }),
  tested: z
    .array(
      z.strictObject({
        kubernetes: z.string().meta({ description: 'Version of Kubernetes: 1.36.3.' }),
        vault: z.string().meta({ description: 'Vault or OpenBao, with its version: OpenBao 2.4.0.' }),
        externalSecrets: z.string().meta({ description: 'Version of the External Secrets Operator.' }),
        date: z.string().meta({ description: 'Day of the run, in UTC: 2026-01-31.' }),
      }),
    )
    .meta({ description: 'Servers with which all scenarios passed. The run may be older than the build.' }),
});

type Of<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>;
type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

export type StatusReport = Of<typeof statusSchema>;
export type PlanReport = Of<typeof planSchema>;
export type Explanation = Of<typeof explainSchema>;
export type MigrationReport = Of<typeof migrateSchema>;
export type VersionReport = Of<typeof versionSchema>;

/** The text of each generated JSON Schema, by path from the project root. */
export function reportSchemas(): ReadonlyMap<string, string> {
  const reports = {
    status: statusSchema,
    plan: planSchema,
    explain: explainSchema,
    migrate: migrateSchema,
    version: versionSchema,
  };
  return new Map(
    Object.entries(reports).map(([name, schema]) => {
      const title = `Output of \`keyferry ${name} -o json\``;
      const json = z.toJSONSchema(schema.meta({ title }), {
        override: ({ jsonSchema }) => void delete jsonSchema.additionalProperties,
      });
      return [`docs/schemas/${name}.json`, `${JSON.stringify(json, undefined, 2)}\n`];
    }),
  );
}
