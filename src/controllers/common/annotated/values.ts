/** How the values of annotations are read, and what is said of one that cannot be read. Pure. */
import { because, type Cause } from '../../../copy/model/cause.ts';
import { clipped } from '../../../runtime/text/texts.ts';

/** A value for a message: in quotes, and at most 100 characters of it. */
export function shown(value: string): string {
  return JSON.stringify(clipped(value, 100));
}

/** @param value '': it is not shown */
export function illFormed(annotation: string, value: string, why: string): Cause {
  return because('IllFormed', `annotation ${annotation}${value === '' ? '' : ` (${shown(value)})`}: ${why}`);
}

/** The items between commas, without spaces around them and without empty ones. */
export function listItems(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  return items.filter((item) => item !== '');
}
