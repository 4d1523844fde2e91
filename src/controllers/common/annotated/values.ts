/** How the values of annotations are read, and what is said of one that cannot be read. Pure. */
import { because, type Cause } from '../../../copy/model/cause.ts';
import { clipped } from '../../../runtime/text/texts.ts';
import { OWN_PREFIX } from '../excluded-metadata.ts';

/** Namespace and name of an object. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
}

/** If this annotation of an annotated object is `true`, Keyferry neither writes nor deletes the targets of its rule. */
export const SUSPEND_ANNOTATION = `${OWN_PREFIX}suspend`;

export const SUSPENDED = because(
  'Suspended',
  `annotation ${SUSPEND_ANNOTATION} is true: targets are neither written nor deleted`,
);

export function isSuspended(annotations: Readonly<Record<string, string>>): boolean {
  return annotations[SUSPEND_ANNOTATION] === 'true';
}

/** A value for a message: in quotes, and at most 100 characters of it. */
export function shown(value: string): string {
  return JSON.stringify(clipped(value, 100));
}

/** @param value `undefined`: it is not shown */
export function illFormed(annotation: string, value: string | undefined, why: string): Cause {
  return because('IllFormed', `annotation ${annotation}${value === undefined ? '' : ` (${shown(value)})`}: ${why}`);
}

/** The items between commas, without spaces around them and without empty ones. */
export function listItems(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  return items.filter((item) => item !== '');
}
