/** Validation rules of CRDs in the Common Expression Language, CEL (`x-kubernetes-validations`). */

export interface Rule {
  /** CEL expression. The API server rejects the object if it is false or if its evaluation fails. */
  readonly rule: string;
  readonly message: string;
  /** CEL expression for a message that quotes values. If its evaluation fails, the server uses `message`. */
  readonly messageExpression?: string;
  /** The field that the error names, as a path from the field with the rule. */
  readonly fieldPath?: string;
  readonly reason?: 'FieldValueInvalid' | 'FieldValueRequired';
  /**
   * Makes `oldSelf` (the stored value) an optional value, which new objects do not have. Without this, the server skips
   * a rule with `oldSelf` when an object is created.
   */
  readonly optionalOldSelf?: true;
}

/** Makes the argument of zod's `.meta()` from validation rules. */
export function rules(...list: readonly Rule[]): { 'x-kubernetes-validations': readonly Rule[] } {
  return { 'x-kubernetes-validations': list };
}

const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';

/** Rule for a string: it is empty or a valid name of a Secret (RFC 1123 subdomain). */
export const NAME_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}([.]${DNS_LABEL})*$')`,
  message: "must be a valid object name: lower case letters, digits, '-' and '.', with a letter or digit at both ends",
};

/** Rule for a string: it is empty or a valid name of a namespace (RFC 1123 label). */
export const NAMESPACE_OR_EMPTY: Rule = {
  rule: `self == '' || self.matches('^${DNS_LABEL}$')`,
  message: "must be a valid namespace name: lower case letters, digits and '-', with a letter or digit at both ends",
};
