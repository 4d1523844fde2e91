/**
 * Schemas of the reports that `keyferry status`, `plan`, `explain` and `version` print with `-o json` and
 * `-o yaml`. They give the commands the types of their reports, and tests validate real output with them. The JSON
 * Schemas in docs/schemas/ are generated from them.
 *
 * Here, an unknown field is an error. The JSON Schemas for users allow unknown fields, because later releases may add
 * fields to the same version of a report.
 */
import { z } from 'zod';

const apiVersion = z.literal('keyferry.dev/v1').meta({
  description: 'Version of the report format. Later releases may add fields to a version, but change and remove none.',
});

const place = {
  kind: z.string().meta({ description: 'Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
};

const copy = {
  ...place,
  sourceVersion: z.string().meta({
    description: 'Version of the source from which the copy was made; empty if such sources have no versions.',
  }),
};

const anywhere = z.strictObject({
  cluster: z.string().meta({
    description:
      'Empty: the cluster that this command reads. Otherwise the name of another cluster; of an entry of Vault, the host of the server, or the store of the ExternalSecret.',
  }),
  kind: z.string().meta({ description: 'Kind of the object; Vault: an entry of Vault.' }),
  namespace: z.string().meta({ description: 'Empty for an entry of Vault, and if it is not known.' }),
  name: z.string().meta({ description: 'Of an entry of Vault, its path.' }),
});

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
  system: z.string().meta({
    description: 'The controller: mirrors, replicator, reflector, config-syncer, mittwald, generator or syncsecret.',
  }),
  kind: z
    .string()
    .meta({ description: 'Kind of the rule: SecretMirror, SyncSecret, ExternalSecret, Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
  source: z.string().meta({
    description:
      'secret NAMESPACE/NAME, configmap NAMESPACE/NAME, syncsecret NAMESPACE/NAME, vault HOST/PATH, or, for an ExternalSecret, kind and name of its store. If “in tenant” follows, the source is in the tenant cluster, and the rule is a copy in the management cluster.',
  }),
  from: anywhere.nullable().meta({ description: 'The source as fields; null if it is not known.' }),
  destinations: z.array(z.string()).meta({
    description:
      'As the rule names them: patterns, namespace names, after “except” the excluded namespaces, or a location in Vault.',
  }),
  elsewhere: z.array(anywhere).meta({
    description:
      'Targets that this command does not read: entries of Vault, and objects in another cluster. The field ready says whether they are up to date.',
  }),
  state: z.string().meta({
    description:
      'Pending, Active or Error; Deleting, Outdated, Waiting, Suspended, Ignored; Unknown if Keyferry has not reconciled the rule yet, or if the user has no permission to read the rule.',
  }),
  ready: z.boolean().meta({ description: 'Whether all copies are up to date.' }),
  reason: z.string().meta({ description: 'Machine-readable reason in one word.' }),
  message: z.string().meta({
    description:
      'Human-readable message. If many namespaces have a problem, it names some of them; the field failing lists all.',
  }),
  since: z.string().nullable().meta({
    description:
      'Since when the condition of the rule has its status, RFC 3339; null if it has none, as annotated objects.',
  }),
  lastSyncTime: z.string().nullable().meta({
    description: 'Time of the last sync, RFC 3339; null if there was none. For a SyncSecret: since when it is synced.',
  }),
  copies: z.array(z.strictObject(copy)).meta({ description: 'Existing copies.' }),
  failing: z
    .array(failing)
    .meta({ description: 'All targets that are not up to date, except those in the field refused.' }),
  refused: z.array(z.strictObject({ ...place, reason: z.string(), message: z.string() })).meta({
    description: 'Targets that the rule selects, but that a limit or the consent of their namespace forbids.',
  }),
  warnings: z.array(z.string()).meta({
    description:
      'Patterns in the rule that the original program reads in another way. A rule with warnings may be ready.',
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
            'The identity of the process that holds the Lease: the name of its Pod (outside a cluster: of its host), an underscore, and a unique text. null: no process holds the Lease.',
        }),
        since: z
          .string()
          .nullable()
          .meta({ description: 'Since when the holder has held the Lease, RFC 3339; null if this is not known.' }),
        expired: z.boolean().meta({
          description:
            'Whether the holder did not renew the Lease in time. Compared with the clock of the machine on which this command runs.',
        }),
      }),
    )
    .meta({ description: 'The Leases of leader election; empty if none was found.' }),
  notes: z.array(z.string()).meta({ description: 'Objects that could not be read, and why.' }),
  namespaces: z
    .array(
      z.strictObject({
        name: z.string(),
        acceptFrom: z.string().optional().meta({
          description: 'Its consent, the annotation keyferry.dev/accept-from; absent if it has none.',
        }),
        closed: z
          .string()
          .optional()
          .meta({ description: 'The limit that keeps every rule out; absent if none does.' }),
      }),
    )
    .nullable()
    .meta({ description: 'All namespaces of the cluster; null if they could not be listed.' }),
  rules: z.array(rule),
  orphans: z
    .array(
      z.strictObject({
        system: z.string(),
        ...copy,
        owner: z.string().meta({ description: 'The owner that the mark of the copy names: NAMESPACE/NAME.' }),
        reason: z.string().meta({ description: 'Why the copy has no rule, and whether Keyferry deletes it.' }),
        action: z.enum(['delete', 'update']).optional().meta({
          description:
            'What Keyferry does by the flags of this command. delete: it deletes the copy, and tries again if the API server refuses this. update: it takes out what it wrote, or the copy gets another owner.',
        }),
        verdict: z.enum(['leftover', 'manual']).optional().meta({
          description:
            'leftover: nothing that this command reads needs the copy; keyferry status --orphans -o name lists it. manual: something may need it. Absent: it is kept on purpose, or its marks do not count.',
        }),
      }),
    )
    .meta({ description: 'Copies that no rule claims.' }),
});

const plannedAction = z.enum([
  'create',
  'update',
  'replace',
  'delete',
  'nothing',
  'conflict',
  'wait',
  'fail',
  'adopt',
  'leave',
]);

const plannedTarget = z.strictObject({
  system: z.string().meta({
    description: 'The controller: mirrors, replicator, reflector, config-syncer, mittwald, generator or syncsecret.',
  }),
  action: plannedAction,
  ...place,
  rule: z.string().meta({
    description:
      'Kind, namespace and name of the rule that owns the target, or of a rule that claims it but does not get it.',
  }),
  reason: z.string(),
  lost: z.boolean().meta({
    description: 'Whether data would be lost, because a copy would be deleted, its data cleared, or a key removed.',
  }),
});

export const planSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Plan'),
  targets: z
    .array(plannedTarget)
    .meta({ description: 'Targets that would change or be refused; with --all also unchanged targets.' }),
  problems: z
    .array(z.strictObject({ rule: z.string(), problem: z.string() }))
    .meta({ description: 'Mistakes in manifests, and manifests that the API server would refuse.' }),
  notes: z.array(z.strictObject({ rule: z.string(), note: z.string() })).meta({
    description: 'Notes on a rule: why it has no targets, or what the plan does not show of it.',
  }),
  unchanged: z.int().meta({ description: 'Number of unchanged targets.' }),
  ignored: z.int().meta({ description: 'Number of objects in the manifests that Keyferry does not use.' }),
});

const claimant = {
  system: z.string(),
  rule: z.string().meta({ description: 'Kind, namespace and name of the rule.' }),
  source: z
    .string()
    .nullable()
    .meta({ description: 'The source, in the same form as in the report of status; null if it is not known.' }),
  destinations: z.array(z.string()),
};

export const explainSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Explanation'),
  cluster: z.string().meta({ description: 'Host of the API server.' }),
  object: z.strictObject({
    ...place,
    kind: z.string().meta({ description: 'Secret, ConfigMap, or the kind of a rule.' }),
    exists: z.boolean(),
    created: z.string().nullable().meta({ description: 'RFC 3339.' }),
    deleting: z.boolean(),
  }),
  verdict: z
    .enum(['copy', 'filled', 'conflict', 'missing', 'orphan', 'rule', 'source', 'unrelated', 'absent', 'unknown'])
    .meta({
      description:
        'copy: a rule claims the object, and the object has the mark of that rule. filled: the object belongs to a user, and a rule fills its data. conflict: a rule claims the object, but the object belongs to another owner. missing: a rule claims the object, but it does not exist. orphan: the object has the mark of a rule that does not claim it. rule: the object is a rule, and not a copy. source: the object is not a copy, and a rule makes copies of it. unrelated: the object exists, and no rule concerns it. absent: the object does not exist, and no rule claims it. unknown: the user has no permission to read the rule that the mark of the object names, or rules of other namespaces that may make the object; or the command does not read the controller that made it.',
    }),
  summary: z.string().meta({ description: 'The verdict in one sentence.' }),
  owner: z
    .string()
    .nullable()
    .meta({ description: 'The rule that owns the object, or would own it; null if there is none.' }),
  source: z
    .string()
    .nullable()
    .meta({ description: 'The source of the owner’s copies; null if it is not known, or if there is no owner.' }),
  heldVersion: z
    .string()
    .nullable()
    .meta({ description: 'Version of the source from which the object was written; null if the object has none.' }),
  sourceVersion: z
    .string()
    .nullable()
    .meta({ description: 'Version that the source has now; null if it is not known.' }),
  next: z
    .strictObject({ action: plannedAction, reason: z.string() })
    .nullable()
    .meta({ description: 'What Keyferry would do with the object now; null if no rule concerns it.' }),
  lastWritten: z
    .string()
    .nullable()
    .meta({ description: 'When Keyferry last wrote the object, RFC 3339; null if it never did.' }),
  writers: z
    .array(
      z.strictObject({
        manager: z.string().meta({ description: 'Name of the client in metadata.managedFields.' }),
        time: z
          .string()
          .nullable()
          .meta({ description: 'Time of the client’s last write, RFC 3339; null if it is not known.' }),
        wrote: z
          .enum(['content', 'metadata', 'status'])
          .meta({ description: 'What the client wrote. All fields except metadata and status are content.' }),
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
    .meta({ description: 'Rules that make objects with the same kind and name, but do not make this object.' }),
  rule: rule.nullable().meta({
    description: 'If the object is a rule: its state, as in the report of status. null if the object is not a rule.',
  }),
  sourceOf: z.array(z.strictObject({ rule: z.string(), copies: z.int() })).meta({
    description:
      'The rules that request copies of the object, each with the number of copies that exist. Targets that this command does not read, such as entries of Vault, count as copies.',
  }),
  usedBy: z
    .array(
      z.strictObject({
        kind: z.string().meta({
          description:
            'Deployment, StatefulSet, DaemonSet, CronJob, Job, Pod, ServiceAccount, Ingress, or another kind that made a Pod.',
        }),
        name: z.string(),
        as: z.array(z.string()).meta({
          description:
            'The fields that name the object: volumes, env, envFrom, imagePullSecrets, secrets, tls. With “, optional” it does without the object.',
        }),
      }),
    )
    .meta({
      description:
        'What names the Secret or ConfigMap in its namespace, whether it exists or not. Instead of a Pod, the workload that made it.',
    }),
  usersUnread: z.array(z.string()).meta({
    description: 'The kinds that could not be listed, so they may use the object: the user has no permission.',
  }),
  notes: z.array(z.string()).meta({ description: 'Objects that could not be read, and notes on the rule.' }),
});

export const versionSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Version'),
  version: z
    .string()
    .meta({ description: 'Version of Keyferry; dev if Keyferry runs from its source without a build.' }),
  commit: z.string().meta({
    description:
      'Git commit from which Keyferry was built, with -dirty if files differed from the commit; unknown if it was built without a Git checkout.',
  }),
  node: z.string().meta({ description: 'Version of the Node that runs Keyferry.' }),
  platform: z.string().meta({ description: 'Operating system and architecture, as Node names them: linux/x64.' }),
  tested: z
    .array(
      z.strictObject({
        kubernetes: z.string().meta({ description: 'Version of Kubernetes: 1.36.3.' }),
        vault: z.string().meta({ description: 'Vault or OpenBao, with its version: OpenBao 2.4.0.' }),
        externalSecrets: z.string().meta({ description: 'Version of the External Secrets Operator.' }),
        date: z.string().meta({ description: 'Day of the run, in UTC: 2026-01-31.' }),
      }),
    )
    .meta({
      description:
        'Servers with which all scenario tests passed. These tests may have run before this version was built.',
    }),
});

type Of<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>;
type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

export type StatusReport = Of<typeof statusSchema>;
export type PlanReport = Of<typeof planSchema>;
export type Explanation = Of<typeof explainSchema>;
export type VersionReport = Of<typeof versionSchema>;

/** The text of each generated JSON Schema, by path from the project root. */
export function reportSchemas(): ReadonlyMap<string, string> {
  const reports = {
    status: statusSchema,
    plan: planSchema,
    explain: explainSchema,
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
