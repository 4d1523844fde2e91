/**
 * What the page, its server and the command `keyferry ui` exchange: types alone. The command (`src/commands/ui.ts`)
 * reads the cluster, so page and server know nothing of Kubernetes.
 */
import type { PlanReport, StatusReport } from '../scripts/reports/schemas.ts';

type Rule = StatusReport['rules'][number];

/** An object in any cluster, or an entry of Vault. */
export type Place = Rule['elsewhere'][number];

export interface PageRule extends Rule {
  /** Unique in the cluster: system, kind, namespace and name. */
  readonly id: string;
  /** Whether its copies could be counted. */
  readonly isCounted: boolean;
}

export interface Advice {
  /** Who can end a reason. */
  readonly who: string;
  /** What the reason means. */
  readonly says: string;
  /** What ends it; '': nobody needs to do anything. */
  readonly how: string;
}

/** Everything but the rules. */
export interface PageFrame extends Pick<StatusReport, 'cluster' | 'leaders' | 'notes' | 'namespaces' | 'orphans'> {
  /** When the data were read, RFC 3339. */
  readonly at: string;
  /** What the rules of all controllers are called, in the plural. */
  readonly ruleNames: string;
  /** Whether a namespace accepts nobody without a consent. */
  readonly requiresConsent: boolean;
  /** By reason. */
  readonly advice: Readonly<Record<string, Advice>>;
}

export interface PageData extends PageFrame {
  readonly rules: readonly PageRule[];
}

/** A line of the stream: all data or what changed, or a lost connection. */
export type PageMessage =
  | { readonly frame: PageFrame; readonly rules: readonly PageRule[]; readonly gone: readonly string[] | 'others' }
  | { readonly trouble: Trouble | null };

export interface Trouble {
  readonly since: string;
  readonly message: string;
}

/** What the command gives the server. */
export interface PageSource {
  readonly cluster: string;
  /** @throws the errors of `api.request` */
  readonly read: () => Promise<PageData>;
  /** Calls `onData` after each change and `onTrouble` when the connection is lost or back, until the signal is aborted. */
  readonly follow: (
    onData: (data: PageData) => void,
    onTrouble: (message: string | undefined) => void,
    signal: AbortSignal,
  ) => Promise<void>;
  /** @throws Error, whose message is for the user */
  readonly plan: (manifests: string) => Promise<PlanReport>;
}

/** What the command line asks for. */
export interface PageOptions {
  /** Write the page with its data into this file, and end; `undefined`: serve it. */
  readonly out: string | undefined;
  readonly redact: boolean;
  /** 0: any free port. */
  readonly port: number;
  /** Whether to open the browser. */
  readonly open: boolean;
}

/** What the server needs of the process. */
export interface PageTerminal {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly now: () => number;
  readonly signal: AbortSignal;
}
