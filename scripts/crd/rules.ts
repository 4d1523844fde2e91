/** Validation rules in the Common Expression Language (`x-kubernetes-validations`). */

export interface Rule {
  /** CEL; true if the value is valid. An evaluation error rejects the object, too. */
  readonly rule: string;
  readonly message: string;
  /** CEL for a message with values. If its evaluation fails, `message` is used. */
  readonly messageExpression?: string;
  /** The field of the error, relative to the rule. */
  readonly fieldPath?: string;
  readonly reason?: 'FieldValueInvalid' | 'FieldValueRequired';
  /** Makes `oldSelf` an optional value, which is present only on updates. */
  readonly optionalOldSelf?: true;
}

/** Rules for zod's `.meta()`. */
export function rules(...list: readonly Rule[]): { 'x-kubernetes-validations': readonly Rule[] } {
  return { 'x-kubernetes-validations': list };
}

const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';

/** For a string field: empty, or a valid name of a Secret (RFC 1123 subdomain). */
export const NAME_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}([.]${DNS_LABEL})*$')`,
  message: "must be a valid object name: lower case letters, digits, '-' and '.', with a letter or digit at both ends",
};

/** For a string field: empty, or a valid name of a namespace (RFC 1123 label). */
export const NAMESPACE_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}$')`,
  message: "must be a valid namespace name: lower case letters, digits and '-', with a letter or digit at both ends",
};
