/** Decides which values one entry of Vault lacks. Pure; `status` and `plan` call it too. */
import type { KvEntry } from '../../../vault/kv/answers.ts';
import type { Settings } from '../request/format.ts';
import { findProperty } from '../request/property.ts';
import type { Problem, WantedValue } from '../request/requests.ts';

export interface EntryDecision {
  /** The values to make; each property once. */
  readonly make: readonly WantedValue[];
  /** ESO finds them inside another property, so they are left alone. */
  readonly nested: readonly WantedValue[];
  readonly problems: readonly Problem[];
}

/** @param wanted all values of this entry */
export function decideEntry(
  entry: KvEntry,
  wanted: readonly WantedValue[],
  { whenDeleted }: Pick<Settings, 'whenDeleted'>,
): EntryDecision {
  if ((entry.state === 'deleted' || entry.state === 'destroyed') && !whenDeleted) {
    const message =
      `the latest version in Vault is ${entry.state}; ` +
      'with the annotation keyferry.dev/generate-when-deleted: "true" a new one is made';
    return {
      make: [],
      nested: [],
      problems: wanted.map(({ field }) => ({ reason: 'Deleted', field, message, fault: 'user' })),
    };
  }
  const values = entry.state === 'found' ? entry.values : undefined;
  const make = new Map<string, WantedValue>();
  const nested: WantedValue[] = [];
  const problems: Problem[] = [];
  for (const value of wanted) {
    const { field, property, decoding } = value;
    const same = make.get(property);
    switch (findProperty(values, property)) {
      case 'unknown': {
        const message = 'no value is made for an expression that reads inside values';
        problems.push({ reason: 'NotMade', field: `${field}.remoteRef.property`, message, fault: 'user' });
        break;
      }
      case 'nested':
        nested.push(value);
        break;
      case 'absent':
        if (same === undefined) make.set(property, value);
        else if (same.decoding !== decoding) {
          const message = `${same.field} reads the same property with another strategy`;
          problems.push({ reason: 'NotMade', field: `${field}.remoteRef.decodingStrategy`, message, fault: 'user' });
        }
        break;
      case 'present':
    }
  }
  // No part of an entry is written while another part is wrong: its readers would see half of it.
  return { make: problems.length > 0 ? [] : [...make.values()], nested, problems };
}
