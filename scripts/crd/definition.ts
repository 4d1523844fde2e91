/** Makes a CustomResourceDefinition from its parts. */
import type { z } from 'zod';
import { toStructuralSchema } from './structural.ts';
import type { SchemaNode } from './structural.ts';

export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'date';
  readonly jsonPath: string;
}

export interface VersionParts {
  readonly name: string;
  readonly storage: boolean;
  /** Schema of the object's fields, except apiVersion, kind and metadata. */
  readonly schema: z.ZodType;
  readonly columns: readonly PrinterColumn[];
  /** If set, the version is deprecated, and kubectl shows this text to its users. */
  readonly deprecationWarning?: string;
}

export interface DefinitionParts {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames?: readonly string[];
  readonly versions: readonly VersionParts[];
}

/**
 * The `apiextensions.k8s.io/v1` object: namespaced, with a status subresource in every version, and without conversion.
 */
export function customResourceDefinition(parts: DefinitionParts): Readonly<Record<string, unknown>> {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${parts.plural}.${parts.group}` },
    spec: {
      group: parts.group,
      names: {
        kind: parts.kind,
        listKind: `${parts.kind}List`,
        plural: parts.plural,
        singular: parts.singular,
        ...(parts.shortNames && { shortNames: parts.shortNames }),
      },
      scope: 'Namespaced',
      // Without this line, an apply over a CRD with a conversion webhook would silently keep the webhook. With it, the
      // apply fails.
      conversion: { strategy: 'None' },
      versions: parts.versions.map((version) => ({
        name: version.name,
        served: true,
        storage: version.storage,
        ...(version.deprecationWarning === undefined
          ? {}
          : { deprecated: true, deprecationWarning: version.deprecationWarning }),
        subresources: { status: {} },
        additionalPrinterColumns: version.columns,
        schema: { openAPIV3Schema: withObjectFields(toStructuralSchema(version.schema)) },
      })),
    },
  };
}

function withObjectFields(schema: SchemaNode): SchemaNode {
  return {
    ...schema,
    properties: {
      apiVersion: { type: 'string' },
      kind: { type: 'string' },
      metadata: { type: 'object' },
      ...schema.properties,
    },
  };
}
