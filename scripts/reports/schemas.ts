/**
 * The schemas of what `keyferry status` and `keyferry plan` print with `-o json` and `-o yaml`. The JSON Schemas in docs/schemas/ are
 * made of them, and the tests hold the real output against them.
 *
 * Here an unknown field is a mistake; in the JSON Schemas it is not, because fields are added without a new version.
 */
import { z } from 'zod';

const apiVersion = z
  .literal('keyferry.dev/v1')
  .meta({ description: 'Version of this form. Within it fields are added, never changed or taken away.' });

const place = {
  kind: z.string().meta({ description: 'Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
};

const copy = {
  ...place,
  sourceVersion: z
    .string()
    .meta({ description: 'Version of the source that the copy holds; empty where sources have none.' }),
};

const failing = z.strictObject({
  ...place,
  state: z.enum(['pending', 'waiting', 'conflict', 'error']).meta({
    description:
      'pending: it is not as it should be, and Keyferry would write it. waiting: something else has to happen first. conflict: the target belongs to somebody else. error: it cannot be done.',
  }),
  reason: z.string().meta({ description: 'One word for programs.' }),
  message: z.string().meta({ description: 'A sentence for people.' }),
});

const rule = z.strictObject({
  system: z.string().meta({ description: 'mirrors or replicator.' }),
  kind: z.string().meta({ description: 'Kind of the object that asks: SecretMirror, Secret or ConfigMap.' }),
  namespace: z.string(),
  name: z.string(),
  source: z.string().meta({ description: 'secret NAMESPACE/NAME, configmap NAMESPACE/NAME or vault HOST/PATH.' }),
  destinations: z.array(z.string()).meta({ description: 'As they are written: patterns, names, or a place in Vault.' }),
  state: z.string().meta({
    description:
      "The system's word: Pending, Active or Error; Deleting, Outdated, Waiting, Suspended, Ignored; Unknown before Keyferry has seen it, or where the caller's rights do not show it.",
  }),
  ready: z.boolean().meta({ description: 'Whether everything is as it should be.' }),
  reason: z.string().meta({ description: 'One word for programs.' }),
  message: z
    .string()
    .meta({ description: 'A sentence for people. It may name some of many namespaces; failing names all.' }),
  lastSyncTime: z.string().nullable().meta({ description: 'RFC 3339; null: never.' }),
  copies: z.array(z.strictObject(copy)).meta({ description: 'Copies that are there.' }),
  failing: z.array(failing).meta({ description: 'Every target that is not as it should be.' }),
});

export const statusSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Status'),
  cluster: z.string().meta({ description: 'Host of the API server.' }),
  systems: z.array(
    z.strictObject({
      system: z.string(),
      installed: z.boolean().meta({ description: 'Whether the API of the system is there.' }),
    }),
  ),
  notes: z.array(z.string()).meta({ description: 'What could not be looked at, and why.' }),
  rules: z.array(rule),
  orphans: z
    .array(
      z.strictObject({
        system: z.string(),
        ...copy,
        owner: z.string().meta({ description: 'What the mark on the copy says: NAMESPACE/NAME.' }),
        reason: z.string().meta({ description: 'Why no rule stands behind it, and what becomes of it.' }),
      }),
    )
    .meta({ description: 'Copies that no rule asks for.' }),
});

export const planSchema = z.strictObject({
  apiVersion,
  kind: z.literal('Plan'),
  targets: z
    .array(
      z.strictObject({
        system: z.string().meta({ description: 'mirrors or replicator.' }),
        action: z.enum(['create', 'update', 'replace', 'delete', 'nothing', 'conflict', 'wait', 'fail']),
        ...place,
        rule: z.string().meta({ description: 'Kind, namespace and name of the rule that decides, or that loses.' }),
        reason: z.string(),
        lost: z.boolean().meta({ description: 'Whether data would be gone: a copy is deleted, or cleared.' }),
      }),
    )
    .meta({ description: 'What would change or be refused; with --all also what stays as it is.' }),
  problems: z
    .array(z.strictObject({ rule: z.string(), problem: z.string() }))
    .meta({ description: 'What cannot be carried out as it is written.' }),
  notes: z.array(z.strictObject({ rule: z.string(), note: z.string() })),
  unchanged: z.int().meta({ description: 'How many of the targets concerned stay as they are.' }),
  ignored: z.int().meta({ description: 'Objects of the manifests that have nothing to do with Keyferry.' }),
});

/** Text of each JSON Schema, by path from the project's root. */
export function reportSchemas(): ReadonlyMap<string, string> {
  const reports = { status: statusSchema, plan: planSchema };
  return new Map(
    Object.entries(reports).map(([name, schema]) => {
      const title = `What \`keyferry ${name} -o json\` prints`;
      const json = z.toJSONSchema(schema.meta({ title }), {
        override: ({ jsonSchema }) => void delete jsonSchema.additionalProperties,
      });
      return [`docs/schemas/${name}.json`, `${JSON.stringify(json, undefined, 2)}\n`];
    }),
  );
}
