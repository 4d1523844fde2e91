/** Validation rules in the Common Expression Language, as the API server runs them (`x-kubernetes-validations`). */

export interface Rule {
  /** CEL; true where the value is right. An error in it refuses the object too. */
  readonly rule: string;
  readonly message: string;
  /** CEL that gives the message, for what `message` cannot know. Where it fails, `message` is used. */
  readonly messageExpression?: string;
  /** The field that the error names, relative to where the rule stands. */
  readonly fieldPath?: string;
  readonly reason?: 'FieldValueInvalid' | 'FieldValueRequired';
  /** Makes `oldSelf` an optional that is there on updates only. */
  readonly optionalOldSelf?: true;
}

/** Metadata for zod's `.meta()` that puts the rules on a schema. */
export function rules(...list: readonly Rule[]): { 'x-kubernetes-validations': readonly Rule[] } {
  return { 'x-kubernetes-validations': list };
}

const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';

/** For a string field: empty, or a name that a Secret may have. The API's own rule is RFC 1123's subdomain. */
export const NAME_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}([.]${DNS_LABEL})*$')`,
  message: "must be a valid object name: lower case letters, digits, '-' and '.', with a letter or digit at both ends",
};

/** For a string field: empty, or a name that a namespace may have (RFC 1123's label). */
export const NAMESPACE_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}$')`,
  message: "must be a valid namespace name: lower case letters, digits and '-', with a letter or digit at both ends",
};
