/** Names as they may stand in the path of a request. What a mirror says may be from a time before the CRD checked anything. */
import { isSubdomain } from '../../runtime/dns-names.ts';

/** @returns what is wrong with the name of an object in this field, if anything is */
export function nameProblems(field: string, name: string | undefined): string[] {
  if (name === undefined) return [`${field}: must be specified`];
  if (isSubdomain(name)) return [];
  return [
    `${field}: ${JSON.stringify(name.slice(0, 63))} is no name of an object: lower case letters, digits, - and .`,
  ];
}
