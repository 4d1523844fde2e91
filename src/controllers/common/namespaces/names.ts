/** Names that can be part of a request path. A SecretMirror that is older than the validation in the CRD may have any name. */
import { isSubdomain } from '../../../runtime/text/dns-names.ts';

/** @returns the problems of an object name in this field */
export function nameProblems(field: string, name: string | undefined): string[] {
  if (name === undefined) return [`${field}: must be specified`];
  if (isSubdomain(name)) return [];
  return [
    `${field}: ${JSON.stringify(name.slice(0, 63))} is not a valid object name: use lower case letters, digits, - and .`,
  ];
}
