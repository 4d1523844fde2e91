/** The output of a command for programs. */
import { stringify } from 'yaml';

/** A report as text, with a line end. */
export function reportText(report: object, format: 'json' | 'yaml'): string {
  return format === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report);
}
