/** Validation rules in the Common Expression Language (`x-kubernetes-validations`). */

export interface Rule {
  /** CEL expression; true if the value is valid. If its evaluation fails, the API server rejects the object, too. */
  readonly rule: string;
  readonly message: string;
  /** CEL expression for a message that contains values. If its evaluation fails, `message` is used. */
  readonly messageExpression?: string;
  /** Path of the field that the error names, relative to the field with the rule. */
  readonly fieldPath?: string;
  readonly reason?: 'FieldValueInvalid' | 'FieldValueRequired';
  /**
   * Makes `oldSelf` an optional value, which is present only in updates. Without this, a rule with `oldSelf` is skipped
   * for new objects.
   */
  readonly optionalOldSelf?: true;
}

/** Validation rules as an argument of zod's `.meta()`. */
export function rules(...list: readonly Rule[]): { 'x-kubernetes-validations': readonly Rule[] } {
  return { 'x-kubernetes-validations': list };
}

const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';

/** Rule for a string field: empty, or a valid name of a Secret (RFC 1123 subdomain). */
export const NAME_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}([.]${DNS_LABEL})*$')`,
  message: "must be a valid object name: lower case letters, digits, '-' and '.', with a letter or digit at both ends",
};

/** Rule for a string field: empty, or a valid name of a namespace (RFC 1123 label). */
export const NAMESPACE_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}$')`,
  message: "must be a valid namespace name: lower case letters, digits and '-', with a letter or digit at both ends",
};
